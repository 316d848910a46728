"""Everything that a cluster stores, as a file: recorded with one release of Grove, loaded with another.

The file is JSON, compressed: the release, how long the cluster had run, and every object as it was stored.
Leases are left out: they belong to processes that are gone.
"""

import asyncio
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grove.embedded.cluster import ClusterSnapshot
from grove.embedded.storage.store import Entry, Snapshot, Table
from grove.meta import Manifest
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import World

_LEFT_OUT: Final = ("leases",)
#: More than any watcher asks for of what happened before the cluster was loaded.
_RING: Final = 1


@dataclass(frozen=True, slots=True)
class Recording:
    """A cluster as one release left it."""

    release: str
    #: Seconds that the cluster had run when it was recorded.
    ran: float
    revision: int
    #: By API group and plural.
    objects: dict[tuple[str, str], list[Manifest]]


def record(world: World, release: str) -> Recording:
    """What the world's cluster stores now."""
    store = world.cluster.store
    objects = {
        (group, plural): [entry.obj for _, entry in sorted(table.entries.items())]
        for (group, plural), table in store.tables()
        if plural not in _LEFT_OUT and table.entries
    }
    return Recording(release, virtual_loop().time(), store.revision, objects)


def write(recording: Recording, file: Path) -> None:
    """The same recording makes the same bytes."""
    document = {
        "release": recording.release,
        "ran": recording.ran,
        "revision": recording.revision,
        "objects": [
            {"group": group, "plural": plural, "items": items}
            for (group, plural), items in sorted(recording.objects.items())
        ],
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(file: Path) -> Recording:
    document = json.loads(gzip.decompress(file.read_bytes()))
    objects = {(each["group"], each["plural"]): each["items"] for each in document["objects"]}
    return Recording(document["release"], document["ran"], document["revision"], objects)


async def load(world: World, recording: Recording) -> None:
    """Make the world's cluster what was recorded, once as much time has passed as it had run."""
    await asyncio.sleep(max(0.0, recording.ran - virtual_loop().time()))
    tables = {}
    for key, items in recording.objects.items():
        table = tables[key] = Table(_RING, recording.revision)
        for item in items:
            metadata = item["metadata"]
            raw = json.dumps(item, separators=(",", ":")).encode()
            place = (metadata.get("namespace") or "", metadata["name"])
            table.entries[place] = Entry(item, raw, int(metadata["resourceVersion"]))
    state = world.cluster.generator.getstate()
    world.cluster.restore(ClusterSnapshot(Snapshot(recording.revision, tables), state))
    # What plays nodes and schedulers lists again.
    await asyncio.sleep(1)
