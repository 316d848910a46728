"""`python -m tests.upgrade.record 0.1.0`: record what this release leaves in a cluster, for releases to come.

Run it from the commit of the release, once. The recordings are part of the tests for as long as an upgrade
from that release is supported.
"""

import sys
from pathlib import Path
from typing import Final

from tests.upgrade.recording import record, write
from tests.upgrade.workloads import CLUSTERS, live

from grove.testing.world import World, run_world

RELEASES: Final = Path(__file__).parent / "releases"


def record_cluster(release: str, offer: str, folder: Path) -> Path:
    """Let a cluster live with the present code, and keep what it stores then."""
    file = folder / f"{release}-{offer}.json.gz"

    async def story(world: World) -> None:
        await live(world, offer)
        write(record(world, release), file)

    run_world(story, CLUSTERS[offer])
    return file


if __name__ == "__main__":
    for each in CLUSTERS:
        print(record_cluster(sys.argv[1], each, RELEASES).name)
