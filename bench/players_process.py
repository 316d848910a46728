"""The players' process: 100 nodes and the kubelets of their pods, on a control plane that has none.

    python -m bench.players_process KUBECONFIG MINOR

Writes one line of JSON when the nodes are there; ends with its standard input.
"""

import asyncio
import sys
from pathlib import Path

from bench.cases import NODES
from bench.pipe import answer, questions, until_told
from bench.profiling import perhaps_profiled
from grove.cli.loop import run_loop
from grove.cli.playing import Players, playing
from grove.embedded.nodes import NodeShape
from grove.embedded.remote import RemoteClient, address_from


async def _play(kubeconfig: Path, minor: str) -> None:
    client = RemoteClient(address_from(kubeconfig), agent="grove-players")
    try:
        async with playing(client, NodeShape(nodes=NODES), version=f"v{minor}.0") as players:
            answer({})
            await _until_alone(players)
    finally:
        await client.close()


async def _until_alone(players: Players) -> None:
    async def listen() -> None:
        async for _ in questions():
            answer({})

    tasks = [asyncio.create_task(listen()), asyncio.create_task(players.failed())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    perhaps_profiled(lambda: run_loop(until_told(_play(Path(sys.argv[1]), sys.argv[2]))))
