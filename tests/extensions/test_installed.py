"""Backends of third parties are found by their entry points; a broken one is one sentence and harms nobody."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.extensions.packages import backend_source, install

from grove.api.config import load
from grove.errors import InvalidConfiguration
from grove.extensions import configs_for, installed, registry_for
from grove.testing import make

CONFIGURATION = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  profiles: [{name: %s, config: {queue: research}}]
"""


def test_an_installed_backend_is_offered_and_says_where_it_is_from(site: Path) -> None:
    install(site, "acme-grove", backend_source("acme"), points={"acme": "acme_grove:Backend"}, version="2.1")
    (offered,) = installed()
    assert offered.backend is not None
    assert offered.backend.name == "acme"
    assert offered.source == "acme-grove 2.1, entry point acme = acme_grove:Backend"
    assert offered.problem == ""


@pytest.mark.parametrize("profile", ["acme", "acme-scheduler"])
def test_a_profile_enables_it_by_its_name_or_its_schedulers_and_gives_it_its_configuration(
    site: Path, profile: str
) -> None:
    install(site, "acme-grove", backend_source("acme"), points={"acme": "acme_grove:Backend"})
    scheduler = load(CONFIGURATION % profile).scheduler
    registry = registry_for(scheduler)
    assert [each.name for each in registry.enabled] == ["default", "acme"]
    assert configs_for(registry, scheduler)["acme"] == {"queue": "research"}
    roles = [make.template("worker", pod={"schedulerName": "acme-scheduler"})]
    selected = registry.select(make.cliqueset(cliques=roles))
    assert selected.backend is registry.get("acme")


def test_third_parties_are_asked_in_the_order_of_their_distributions(site: Path) -> None:
    for distribution, name in (("zeta", "first"), ("alpha", "second")):
        install(site, distribution, backend_source(name), points={name: f"{distribution}:Backend"})
    assert [each.name for each in installed()] == ["second", "first"]


@dataclass(frozen=True)
class Case:
    want: str
    source: str = ""
    point: str = "acme"
    value: str = "acme_grove:Backend"


CASES = {
    "a module that is not there": Case(
        "cannot be imported: ModuleNotFoundError: No module named 'acme_grove'"
    ),
    "a module that fails": Case(
        "cannot be imported: ValueError: no licence", source="raise ValueError('no licence')"
    ),
    "a module that exits": Case("cannot be imported: SystemExit: 3", source="raise SystemExit(3)"),
    "an attribute that is not there": Case(
        "cannot be imported: AttributeError: module 'acme_grove' has no attribute 'Backend'", source="x = 1"
    ),
    "a module instead of a class": Case(
        "must be something to call without arguments, not a module; a class will do",
        source=backend_source("acme"),
        value="acme_grove",
    ),
    "a constructor with arguments": Case(
        "cannot be called without arguments: TypeError: ",
        source=backend_source("acme", body="def __init__(self, licence): pass"),
    ),
    "something else than a backend": Case(
        "does not keep the contract of a backend: it lacks scheduling_gate, capabilities, resources,",
        source="class Backend:\n    name = 'acme'\n    scheduler_name = 'x'\n    def matches(self, n): return True",
    ),
    "the name of a built-in": Case(
        "has the name of a backend that ships with Grove; choose another",
        source=backend_source("kai"),
        point="kai",
    ),
    "another name than its own": Case(
        "gives a backend that calls itself 'other'; both names must be the same",
        source=backend_source("other"),
    ),
    "a name that no label can hold": Case(
        "has a name that is not a DNS label: 'Acme_1'", source=backend_source("Acme_1"), point="Acme_1"
    ),
    "a gate that no pod can have": Case(
        "has a scheduling_gate that Kubernetes does not accept: 'a b'",
        source=backend_source("acme", body="scheduling_gate = 'a b'"),
    ),
    "the scheduler of a built-in": Case(
        "has the schedulerName 'kai-scheduler', which belongs to the backend kai",
        source=backend_source("acme", scheduler="kai-scheduler"),
    ),
    "a backend that denies itself": Case(
        "does not match its own schedulerName 'acme-scheduler'",
        source=backend_source("acme", body="def matches(self, scheduler_name): return False"),
    ),
    "a backend that fails when it is asked": Case(
        "fails when it is asked about its own schedulerName 'acme-scheduler': KeyError: 'x'",
        source=backend_source("acme", body="def matches(self, scheduler_name): raise KeyError('x')"),
    ),
    "a backend whose traits depend on the cluster being there": Case(
        "fails when it is asked for its traits on an empty cluster: KeyError: 'x'",
        source=backend_source("acme", body="def traits(self, context): return context.cluster.served['x']"),
    ),
    "traits of another kind": Case(
        "must say its traits as Traits, not as an object of type dict",
        source=backend_source("acme", body="def traits(self, context): return {}"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_broken_one_is_refused_in_one_sentence_that_names_distribution_and_entry_point(
    site: Path, case: Case
) -> None:
    install(site, "acme-grove", case.source, points={case.point: case.value})
    (offered,) = installed()
    assert offered.backend is None
    where = f"acme-grove 1.0: the entry point {case.point!r} of grove.backends ({case.value}) "
    assert offered.problem.startswith(where + case.want)
    assert "\n" not in offered.problem


def test_two_of_one_name_are_both_refused_and_name_each_other(site: Path) -> None:
    for distribution in ("acme-one", "acme-two"):
        module = distribution.replace("-", "_")
        install(site, distribution, backend_source("acme"), points={"acme": f"{module}:Backend"})
    one, two = installed()
    assert one.backend is None
    assert two.backend is None
    assert one.problem == (
        "acme-one 1.0: the entry point 'acme' of grove.backends (acme_one:Backend) "
        "clashes with one of the same name from acme-two 1.0; uninstall all but one"
    )
    assert "clashes with one of the same name from acme-one 1.0" in two.problem


def test_a_broken_one_that_is_not_enabled_harms_nobody(site: Path) -> None:
    install(site, "acme-grove", "raise ValueError('no')", points={"acme": "acme_grove:Backend"})
    install(site, "works", backend_source("works"), points={"works": "works:Backend"})
    registry = registry_for(load(CONFIGURATION % "works").scheduler)
    assert [each.name for each in registry.enabled] == ["default", "works"]


def test_a_profile_that_names_a_broken_one_gets_its_sentence(site: Path) -> None:
    install(site, "acme-grove", "raise ValueError('no')", points={"acme": "acme_grove:Backend"})
    with pytest.raises(InvalidConfiguration) as refused:
        registry_for(load(CONFIGURATION % "acme").scheduler)
    assert str(refused.value) == (
        "scheduler.profiles[0].name: acme-grove 1.0: the entry point 'acme' of grove.backends "
        "(acme_grove:Backend) cannot be imported: ValueError: no"
    )


def test_a_broken_namesake_of_a_built_in_does_not_keep_it_from_being_enabled(site: Path) -> None:
    install(site, "acme-grove", backend_source("kai"), points={"kai": "acme_grove:Backend"})
    registry = registry_for(load(CONFIGURATION % "kai").scheduler)
    assert [type(each).__module__ for each in registry.enabled if each.name == "kai"] == [
        "grove.backends.kai.backend"
    ]


def test_an_unknown_profile_says_which_installed_ones_could_not_be_asked(site: Path) -> None:
    install(site, "acme-grove", "raise ValueError('no')", points={"acme": "acme_grove:Backend"})
    with pytest.raises(
        InvalidConfiguration, match=r"'acme-scheduler' is not a scheduler backend; .*; not usable: acme-grove"
    ):
        registry_for(load(CONFIGURATION % "acme-scheduler").scheduler)


def test_a_backend_that_cannot_be_asked_on_an_empty_cluster_is_refused(site: Path) -> None:
    body = "def resources(self, context): return [context.cluster.served['acme/v1']]"
    install(site, "acme-grove", backend_source("acme", body=body), points={"acme": "acme_grove:Backend"})
    (offered,) = installed()
    want = "fails when it is asked for its resources on an empty cluster: KeyError: 'acme/v1'"
    assert offered.problem.endswith(want)
