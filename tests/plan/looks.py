"""One look at a set for tests: what exists, and what would be written."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
from tests.plan.at_once import at_once

from grove.api import kinds
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.service import Service
from grove.controllers.apply import MOST_AT_ONCE, Batch, first_batch
from grove.meta import Manifest, Object
from grove.plan.changes import Change, Create, Delete, Patch
from grove.plan.children import KINDS, CliqueSetState, Settled
from grove.plan.children import plan_children as lazily
from grove.plan.edits import decided_minima
from grove.plan.slices import Work
from grove.testing import make

ROLES = {"leader": 1, "worker": 2}
RESOURCES = {kind.resource.kind: kind.resource for kind in KINDS}


def planning_children(seen: CliqueSetState, settled: Settled, *, most: int = MOST_AT_ONCE) -> Work[Batch]:
    """What one look at the set would write."""
    return first_batch(lazily(seen, settled), most, most)


def plan_children(seen: CliqueSetState, settled: Settled, *, most: int = MOST_AT_ONCE) -> Batch:
    return at_once(planning_children(seen, settled, most=most))


def grown(cliqueset: PodCliqueSet) -> CliqueSetState:
    """The set with every child as the plan itself would create it."""
    plan = plan_children(bare(cliqueset), Settled())
    found: dict[str, dict[str, Object]] = {kind.resource.kind: {} for kind in KINDS}
    types = {kind.resource.kind: kind.view for kind in KINDS}
    for number, change in enumerate(plan.changes):
        assert isinstance(change, Create)
        manifest = {**change.manifest, "metadata": {**change.manifest["metadata"]}}
        manifest["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": str(number)}
        kind = manifest["kind"]
        found[kind][manifest["metadata"]["name"]] = make.view(types[kind], manifest)
    return observed(cliqueset, found)


def observed(cliqueset: PodCliqueSet, found: Mapping[str, Mapping[str, Object]]) -> CliqueSetState:
    seen = CliqueSetState(
        cliqueset, {RESOURCES[kind]: items for kind, items in found.items()}, backend="default"
    )
    return replace(seen, decided=decided_minima(cliqueset, seen.cliques, seen.gangs))


def bare(cliqueset: PodCliqueSet) -> CliqueSetState:
    return CliqueSetState(cliqueset, backend="default", decided=decided_minima(cliqueset, {}, {}))


def again(
    seen: CliqueSetState,
    cliqueset: PodCliqueSet,
    *,
    services: Mapping[str, Service] | None = None,
    gangs: Mapping[str, PodGang] | None = None,
    cliques: Mapping[str, PodClique] | None = None,
    **facts: object,
) -> CliqueSetState:
    """The same children but for these, for the set as it is since it was edited."""
    others = {kinds.SERVICES: services, kinds.GANGS: gangs, kinds.CLIQUES: cliques}
    found = {**seen.children, **{kind: items for kind, items in others.items() if items is not None}}
    changed = replace(seen, cliqueset=cliqueset, children=found, **facts)  # type: ignore[arg-type]
    return replace(changed, decided=decided_minima(cliqueset, changed.cliques, changed.gangs))


def written(plan: Batch) -> list[str]:
    return [_told(change) for change in plan.changes]


def _told(change: Change) -> str:
    if isinstance(change, Create):
        kind, name = change.manifest["kind"], change.manifest["metadata"]["name"]
        # The record of a template is named after its hash, which is tested elsewhere.
        return f"create {kind} {name.rpartition('-')[0] if kind == 'ControllerRevision' else name}"
    assert isinstance(change, (Patch, Delete))
    return f"{type(change).__name__.lower()} {change.resource.kind} {change.key.name}"


def patches(seen: CliqueSetState) -> dict[str, Manifest]:
    plan = plan_children(seen, Settled())
    return {change.key.name: change.patch for change in plan.changes if isinstance(change, Patch)}


def whole_manifest(item: Object) -> Manifest:
    manifest: Manifest = msgspec.to_builtins(item)
    return manifest
