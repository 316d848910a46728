"""The cluster's process: the embedded cluster over HTTPS, and its request log on a pipe.

    python -m bench.cluster_process KUBECONFIG MINOR

Writes one line of JSON when it is ready, then answers each line of its standard input: `writes` with what the
operator wrote since the log was last forgotten, `forget` by forgetting it. Ends with its standard input.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.cases import NODES
from bench.profiling import perhaps_profiled
from grove.cli.loop import Interrupted, run_loop, stop_on_signals, unless_stopped
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.requests import Logged

OPERATOR: Final = "grove-operator/"
EVENTS: Final = ("events", "events.events.k8s.io")
#: Questions that have the form of a create and store nothing.
_QUESTIONS: Final = ("authorization.k8s.io", "authentication.k8s.io")


def writes(log: Iterable[Logged]) -> dict[str, int]:
    """What the operator wrote, by verb and resource; `refused` counts attempts that were answered no."""
    counts: Counter[str] = Counter()
    for entry in log:
        if not entry.is_write or not entry.agent.startswith(OPERATOR):
            continue
        if entry.resource.partition("/")[0].endswith(_QUESTIONS):
            continue
        counts["refused" if entry.status >= 400 else f"{entry.verb} {entry.resource}"] += 1
    return dict(counts)


async def _serve(kubeconfig: Path, minor: str) -> None:
    options = ClusterOptions(
        kubernetes=minor,
        nodes=NODES,
        managed_fields="lazy",
        schedulers=("default",),
        tune_gc=True,
        force=True,
    )
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with EmbeddedCluster(options) as cluster:
        cluster.kubeconfig(kubeconfig)
        _answer({})
        while line := await reader.readline():
            if line.strip() == b"forget":
                cluster.requests.clear()
                _answer({})
            else:
                _answer(writes(cluster.requests))


def _answer(counts: dict[str, int]) -> None:
    print(json.dumps(counts), flush=True)


async def _until_told(kubeconfig: Path, minor: str) -> None:
    with stop_on_signals() as stop:
        try:
            await unless_stopped(_serve(kubeconfig, minor), stop)
        except Interrupted:
            return


if __name__ == "__main__":
    perhaps_profiled(lambda: run_loop(_until_told(Path(sys.argv[1]), sys.argv[2])))
