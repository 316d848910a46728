"""Record goldens: `python -m tests.contract.record --kubeconfig PATH --minor 1.36`.

Runs every check of the minor against the server and writes what it answered, with origin "real". A check
that this server cannot answer keeps its golden. `--embedded` records the embedded server instead, and only
for checks that have no golden of a real one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.contract import catalogue, goldens
from tests.contract.contract import Server, Unavailable
from tests.contract.goldens import Golden, Origin
from tests.contract.serving import BARE, served

from grove.kube import config


async def record(server: Server, origin: Origin, only: Sequence[str] = ()) -> list[str]:
    """Runs the checks and saves what they observe; returns a line for everything worth telling."""
    await catalogue.prepare(server)
    checks = catalogue.CHECKS
    known = goldens.load(server.minor)
    kept = {name: golden for name, golden in known.items() if name in checks}
    told = [f"removed {name}: there is no such check any more" for name in known.keys() - kept.keys()]
    for name, check in checks.items():
        before = kept.get(name)
        if (only and name not in only) or (
            origin == "embedded" and before is not None and before.origin == "real"
        ):
            continue
        try:
            observed = await catalogue.observe(check, server)
        except Unavailable as why:
            told.append(f"kept {name}: {why}")
            continue
        except Exception as error:
            told.append(f"kept {name}: the check failed: {type(error).__name__}: {error}")
            continue
        kept[name] = Golden(origin, observed)
        if before is not None and before.want != observed:
            told.append(f"changed {name}: {before.want} -> {observed}")
    goldens.save(server.minor, kept)
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--kubeconfig", type=Path, help="the server to record")
    source.add_argument("--embedded", action="store_true", help="record the embedded server")
    parser.add_argument("--minor", choices=catalogue.MINORS, default=catalogue.MAIN)
    parser.add_argument("checks", nargs="*", help="record only these")
    asked = parser.parse_args(arguments)
    if asked.embedded:
        with (
            tempfile.TemporaryDirectory() as folder,
            served(Path(folder) / "kubeconfig", replace(BARE, kubernetes=asked.minor)) as embedded,
        ):
            told = asyncio.run(record(embedded.server(), "embedded", asked.checks))
    else:
        server = Server(config.load(str(asked.kubeconfig)), asked.minor)
        told = asyncio.run(record(server, "real", asked.checks))
    for line in told:
        print(line, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
