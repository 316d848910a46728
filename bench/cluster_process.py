"""The cluster's process: the embedded cluster over HTTPS, and its request log on a pipe.

    python -m bench.cluster_process FOLDER MINOR [SCHEDULER [COLLECTED_PER_SECOND]]

Writes a kubeconfig into the folder and one line of JSON when it is ready, then answers each line of its
standard input: `writes` with what the operator wrote since the log was last forgotten, `forget` by forgetting
it, `pids` with its process. Ends with its standard input.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.cases import NODES
from bench.pipe import answer, questions, until_told
from bench.profiling import perhaps_profiled
from bench.writes import is_question
from grove.cli.loop import run_loop
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.requests import Logged

OPERATOR: Final = "grove-operator/"


def writes(log: Iterable[Logged]) -> dict[str, int]:
    """What the operator wrote, by verb and resource; `refused` counts attempts that were answered no."""
    counts: Counter[str] = Counter()
    for entry in log:
        if not entry.is_write or not entry.agent.startswith(OPERATOR) or is_question(entry.resource):
            continue
        counts["refused" if entry.status >= 400 else f"{entry.verb} {entry.resource}"] += 1
    return dict(counts)


async def _serve(folder: Path, minor: str, scheduler: str = "", collected: str = "0") -> None:
    options = ClusterOptions(
        kubernetes=minor,
        nodes=NODES,
        managed_fields="lazy",
        schedulers=(scheduler or "default",),
        collected_per_second=float(collected),
        tune_gc=True,
        force=True,
    )
    async with EmbeddedCluster(options) as cluster:
        cluster.kubeconfig(folder / "kubeconfig")
        answer({})
        async for question in questions():
            if question == "forget":
                cluster.requests.clear()
                answer({})
            elif question == "pids":
                answer({"cluster": os.getpid()})
            else:
                answer(writes(cluster.requests))


if __name__ == "__main__":
    perhaps_profiled(lambda: run_loop(until_told(_serve(Path(sys.argv[1]), *sys.argv[2:]))))
