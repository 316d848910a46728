"""Run the API contract suite on real control planes: `contract_real.py 1.36 [1.37 ...]`.

Starts each one on the loopback, runs the same checks with the same goldens as on the embedded server, asks
both servers the same at random (GROVE_DIFFERENTIAL_SEEDS=1000 for more), and stops it. There is no scheduler:
what it writes to a pod would come between a check and its answer.
"""

import asyncio
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from grove.real import Options, RealControlPlane, RealFailure  # noqa: E402

SUITES = ("tests/contract/test_contract.py", "tests/contract/test_differential.py")


async def run(minor: str) -> int:
    """The exit code of the suite on one minor."""
    async with RealControlPlane(Options(minor=minor, scheduler=False)) as plane:
        environment = {
            **os.environ,
            "GROVE_CONTRACT_KUBECONFIG": str(plane.kubeconfig()),
            "GROVE_CONTRACT_MINOR": minor,
        }
        suite = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "pytest", "-n", "0", "-m", "not compat", *SUITES),
            cwd=ROOT,
            env=environment,
        )
        return await suite.wait()


def main(minors: list[str]) -> int:
    """The first exit code that is not zero, after all minors were tried."""
    codes = []
    for minor in minors:
        print(f"API contract on a real Kubernetes {minor}", flush=True)
        try:
            codes.append(asyncio.run(run(minor)))
        except RealFailure as failure:
            print(failure, file=sys.stderr)
            codes.append(1)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main([minor for argument in sys.argv[1:] for minor in argument.split(",") if minor]))
