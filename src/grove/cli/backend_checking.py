"""Run the conformance kit against backends, and ask a cluster for what they need. Writes nothing anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from grove.api.config import Scheduler
from grove.backends.base import Backend, Context, TopologyAware
from grove.cli.backend_listing import aligned, usable
from grove.cli.connect import connected
from grove.cli.preconditions import preconditions_of
from grove.cli.talk import Failed
from grove.extensions import configs_for, installed, registry_for
from grove.kube.client import Client
from grove.meta import Manifest
from grove.testing.clusters import serving
from grove.testing.conformance import BackendConformance, RuleVerdict, verdicts
from grove.testing.kits import BadKit, kit_for
from grove.words import counted

#: The rules that nobody can check without the author of a backend, and what they must be told.
_NEED_A_KIT: Final = {
    "test_objects_demand_what_the_gang_demands": "minimum_of",
    "test_the_queue_of_the_gang_makes_a_difference": "queue_annotation",
    "test_the_score_of_a_placement_is_the_one_that_the_scheduler_gave": "scored",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at: a rule, or something that the cluster must have."""

    what: str
    fine: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """A backend and everything that was found out about it."""

    name: str
    backend: Backend | None
    rules: tuple[Line, ...]
    cluster: tuple[Line, ...] = ()

    @property
    def passed(self) -> bool:
        return all(each.fine for each in (*self.rules, *self.cluster))


def checked(name: str = "") -> list[Checked]:
    """The backend of this name (all of them if blank) against every rule; raises Failed if there is none."""
    found = [_checked(backend) for backend, _ in usable() if name in ("", backend.name)]
    for each in installed():
        if each.problem and name in ("", each.name) and each.name not in {one.name for one in found}:
            found.append(Checked(each.name, None, (Line("is installed properly", False, each.problem),)))
    if not found:
        known = ", ".join(backend.name for backend, _ in usable())
        raise Failed(f"{name!r} is not a scheduler backend; known backends: {known}")
    return found


def _checked(backend: Backend) -> Checked:
    try:
        kit = kit_for(backend.name)
    except BadKit as error:
        return Checked(backend.name, backend, (Line("offers a conformance kit", False, str(error)),))
    if kit is not None:
        lines = tuple(Line(each.sentence, each.kept, each.why) for each in verdicts(kit))
        return Checked(backend.name, backend, lines)
    lines = tuple(
        Line(each.sentence, each.kept, each.why if each.kept else _why_without_kit(each, backend.name))
        for each in verdicts(_plain_kit(backend))
    )
    return Checked(backend.name, backend, lines)


def _why_without_kit(broken: RuleVerdict, backend: str) -> str:
    if broken.rule not in _NEED_A_KIT:
        return broken.why
    return (
        "cannot be checked without the package's help; offer a subclass of BackendConformance with "
        f"{_NEED_A_KIT[broken.rule]} as the entry point {backend!r} of grove.conformance"
    )


def _plain_kit(backend: Backend) -> BackendConformance:
    """The rules on a cluster that serves the kinds of which the backend itself speaks."""
    kinds = list(backend.resources(Context()))
    if isinstance(backend, TopologyAware):
        kinds.append(backend.topology_resource)

    def contexts(self: BackendConformance) -> Sequence[Context]:
        return [Context(serving(*kinds))]

    kit: BackendConformance = type(
        "PlainKit", (BackendConformance,), {"backend": backend, "contexts": contexts}
    )()
    return kit


async def on_cluster(
    found: Sequence[Checked], kubeconfig: str | None, context: str | None, scheduler: Scheduler
) -> list[Checked]:
    """The same, with what the cluster has and lacks for each of them."""
    configs = configs_for(registry_for(scheduler), scheduler)
    async with connected(kubeconfig, context) as reached:
        told = []
        for each in found:
            lines = await _needs(each.backend, reached.client, configs) if each.backend is not None else ()
            told.append(replace(each, cluster=lines))
        return told


async def _needs(backend: Backend, client: Client, configs: dict[str, Manifest]) -> tuple[Line, ...]:
    lines = [
        Line(f"on the cluster: {each.name}", not each.missing, each.missing)
        for each in await preconditions_of(backend, client, configs)
    ]
    return tuple(lines) or (Line("needs nothing on the cluster", True),)


def report(found: Sequence[Checked], *, every_rule: bool) -> str:
    """The findings for people: all of them, or only what is wrong and a line for each backend."""
    rows: list[tuple[str, str, str]] = []
    for each in found:
        lines = [*each.rules, *each.cluster]
        told = [line for line in lines if every_rule or not line.fine]
        rows += [(each.name, "ok" if line.fine else "FAILED", _told(line)) for line in told]
        kept = sum(1 for line in lines if line.fine)
        rows.append(
            (each.name, "ok" if each.passed else "FAILED", f"{kept} of {counted(len(lines), 'check')}")
        )
    return aligned([("BACKEND", "RESULT", "WHAT"), *rows])


def _told(line: Line) -> str:
    return f"{line.what}: {line.why}" if line.why else line.what


def data(found: Sequence[Checked]) -> list[Manifest]:
    """The findings as data."""
    return [
        {
            "name": each.name,
            "passed": each.passed,
            "rules": [_data(line) for line in each.rules],
            "cluster": [_data(line) for line in each.cluster],
        }
        for each in found
    ]


def _data(line: Line) -> Manifest:
    return {"what": line.what, "passed": line.fine, **({"why": line.why} if line.why else {})}
