"""Who acts on a set: annotation, then schedulerName, then the default; everything else is refused by field."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from grove.api.cliqueset import PodCliqueSet
from grove.api.labels import SCHEDULER_BACKEND
from grove.backends.default import DefaultBackend
from grove.backends.kai import KaiBackend
from grove.backends.registry import Registry
from grove.errors import InvalidConfiguration
from grove.testing import make


class First(KaiBackend):
    name: ClassVar[str] = "first"
    scheduler_name: ClassVar[str] = "first-scheduler"

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name.endswith("-scheduler")


class Second(First):
    name: ClassVar[str] = "second"
    scheduler_name: ClassVar[str] = "second-scheduler"


@dataclass(frozen=True)
class Case:
    want: tuple[str, str]
    schedulers: Sequence[str] = ("",)
    annotation: str = ""
    default: str = "default"
    profiles: Sequence[str] = field(default=("default", "kai", "second", "first"))


CASES = {
    "nobody chooses: the default": Case(want=("default", "default")),
    "the default may be another": Case(want=("kai", "default"), default="kai"),
    "a profile may be named by its schedulerName": Case(
        want=("kai", "default"), profiles=["kai-scheduler"], default="kai-scheduler"
    ),
    "the roles' schedulerName": Case(want=("kai", "schedulerName"), schedulers=["kai-scheduler"] * 2),
    "default-scheduler by name": Case(
        want=("default", "schedulerName"), schedulers=["default-scheduler"], default="kai"
    ),
    "grove-scheduler is kai": Case(want=("kai", "schedulerName"), schedulers=["grove-scheduler"]),
    "two names of one backend": Case(
        want=("kai", "schedulerName"), schedulers=["grove-scheduler", "kai-scheduler"]
    ),
    "an empty name means the default": Case(
        want=("kai", "schedulerName"), schedulers=["", "kai-scheduler"], default="kai"
    ),
    "the annotation wins over the roles": Case(
        want=("default", "annotation"), annotation="default", schedulers=["kai-scheduler"]
    ),
    "an empty annotation chooses nothing": Case(want=("kai", "schedulerName"), schedulers=["kai-scheduler"]),
    "the first third party that matches": Case(want=("second", "schedulerName"), schedulers=["my-scheduler"]),
    "the order of profiles does not matter": Case(
        want=("second", "schedulerName"),
        schedulers=["my-scheduler"],
        profiles=["first", "second", "kai", "default"],
    ),
    "a built-in's name is its own": Case(
        want=("kai", "schedulerName"),
        schedulers=["kai-scheduler"],
        profiles=["first", "kai"],
        default="first",
    ),
    "a third party by annotation": Case(want=("first", "annotation"), annotation="first"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_selection(case: Case) -> None:
    registry = Registry.of(case.profiles, case.default, third_parties=[Second(), First()])
    selection = registry.select(_set(case.schedulers, case.annotation))
    assert selection.errors == ()
    assert selection.backend is not None
    assert (selection.backend.name, selection.source) == case.want


def test_a_backend_that_is_not_enabled_is_refused_by_field_with_what_is_enabled() -> None:
    registry = Registry([DefaultBackend()], "default")
    by_name = registry.select(_set(["kai-scheduler", "kai-scheduler"]))
    assert by_name.backend is None
    assert [error.field for error in by_name.errors] == [
        "spec.template.cliques[0].spec.podSpec.schedulerName",
        "spec.template.cliques[1].spec.podSpec.schedulerName",
    ]
    assert by_name.errors[0].message == (
        "'kai-scheduler': scheduler backend is not enabled in Grove; enabled: default (default-scheduler)"
    )
    by_annotation = registry.select(_set([""], "kai"))
    assert by_annotation.backend is None
    assert [error.field for error in by_annotation.errors] == [f"metadata.annotations[{SCHEDULER_BACKEND}]"]
    assert "scheduler backend is not enabled in Grove" in by_annotation.errors[0].message


def test_mixed_schedulers_are_refused() -> None:
    registry = Registry.of(["default", "kai"], "default")
    selection = registry.select(_set(["", "kai-scheduler"]))
    assert selection.backend is None
    assert [error.field for error in selection.errors] == [
        "spec.template.cliques[1].spec.podSpec.schedulerName"
    ]
    assert "all pods of a set have one scheduler" in selection.errors[0].message


@pytest.mark.parametrize(
    ("profiles", "default", "text"),
    [
        (["default", "nope"], "default", r"scheduler.profiles\[1\].name: 'nope'"),
        (["default"], "kai", "scheduler.defaultProfileName: 'kai'"),
        (["kai", "kai-scheduler"], "kai", "configured twice"),
        ([""], "default", r"scheduler.profiles\[0\].name: ''"),
    ],
)
def test_a_wrong_configuration_names_its_field(profiles: Sequence[str], default: str, text: str) -> None:
    with pytest.raises(InvalidConfiguration, match=text):
        Registry.of(profiles, default)


def test_a_gangs_label_finds_its_backend_and_nobody_elses() -> None:
    registry = Registry.of(["default", "kai"], "kai")
    assert [backend.name for backend in registry.enabled] == ["default", "kai"]
    assert registry.get("kai") is registry.default
    assert registry.get("kai-scheduler") is None


def _set(schedulers: Sequence[str], annotation: str = "") -> PodCliqueSet:
    roles = [
        make.template(f"role{index}", pod={"schedulerName": name} if name else {})
        for index, name in enumerate(schedulers)
    ]
    annotations = {SCHEDULER_BACKEND: annotation}
    return make.cliqueset(cliques=roles, annotations=annotations)
