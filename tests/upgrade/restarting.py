"""`python -m tests.upgrade.restarting FILE OFFER`: start an operator on a recorded cluster, and tell what it writes.

Runs with whatever release of Grove is on the path: the present one for an upgrade, an earlier one for a rollback.
"""

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.adoption.taking_over import identities, pod_deletions
from tests.scenarios.stories import pass_time
from tests.upgrade.recording import load, read
from tests.upgrade.workloads import CLUSTERS

from grove.api import kinds
from grove.api.crd import definitions
from grove.testing.world import CRDS, World, run_world

#: Longer than every delay of the operator but the termination delay.
_LONG: float = 1800.0


@dataclass(frozen=True, slots=True)
class Restarted:
    """What happened when an operator came to a recorded cluster."""

    deleted: list[str]
    writes: list[str]
    #: Pods that are not what they were, by name.
    changed: list[str]
    stored_versions: dict[str, list[str]]


async def restart(world: World, file: Path) -> Restarted:
    """Load a cluster, install this release's CRDs and start its operator."""
    await load(world, read(file))
    await _install_crds(world)
    await world.settle()
    pods, before = await identities(world), len(list(world.cluster.requests))
    await world.start_operator()
    await pass_time(_LONG)
    new = list(world.cluster.requests)[before:]
    writes = [
        f"{entry.verb} {entry.resource} {entry.path.split('/')[-2 if '/' in entry.resource else -1]}"
        for entry in new
        if entry.is_write
        and entry.user == world.options.operator_user.name
        and not entry.resource.startswith(("events", "leases"))
    ]
    now = await identities(world)
    changed = sorted(name for name in pods.keys() | now.keys() if pods.get(name) != now.get(name))
    return Restarted(pod_deletions(world), writes, changed, await _stored_versions(world))


async def _install_crds(world: World) -> None:
    """As `grove crds | kubectl apply --server-side -f -` does."""
    for definition in definitions():
        await world.user.apply(CRDS, definition, field_manager="kubectl", force=True)


async def _stored_versions(world: World) -> dict[str, list[str]]:
    found = {}
    for each in kinds.OURS:
        crd = await world.get(CRDS, str(each)) or {}
        found[str(each)] = list((crd.get("status") or {}).get("storedVersions") or ())
    return found


def restarted(file: Path, offer: str) -> Restarted:
    """The same in a world of its own, whose UIDs are others."""
    outcome = []

    async def story(world: World) -> None:
        outcome.append(await restart(world, file))

    run_world(story, replace(CLUSTERS[offer], seed=7), operator=False)
    return outcome[0]


if __name__ == "__main__":
    print(json.dumps(asdict(restarted(Path(sys.argv[1]), sys.argv[2]))))
