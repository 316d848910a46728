"""The process of a real control plane: starts its four programs, and reads the API server's audit log.

    python -m bench.real_process FOLDER MINOR SCHEDULER COLLECTED

COLLECTED is how many requests a second each controller of the controller manager may send, its garbage
collector among them; 0 for as many as in the tests, which are more than it needs. Its own default is 20.

Puts Grove's kinds, the operator's permissions and its share of the API server in, writes `kubeconfig`, the
administrator's, and `operator.kubeconfig` into the folder and one line of JSON when all is ready. Answers
like `cluster_process`, `pids` with the process of each program. Ends, with all of them, when its standard
input does.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

import yaml

from bench.audit import OPERATOR, OPERATOR_GROUPS, AuditLog
from bench.pipe import answer, questions, until_told
from bench.processes import ROOT
from grove.cli.local import install_crds
from grove.cli.loop import run_loop
from grove.errors import GroveError
from grove.kube.client import Client
from grove.kube.config import load
from grove.kube.transport import HttpTransport
from grove.meta import resource
from grove.real import Options, RealControlPlane
from grove.real.versions import APISERVER, CONTROLLER_MANAGER

_DEPLOYED: Final = ("namespace.yaml", "rbac.yaml", "flow-control.yaml")
#: As many times its rate as it may send at once, as by default.
_BURST: Final = 1.5
#: For so long after a kind was established the API server lets whoever creates an object of it wait.
_NEW_KIND_SECONDS: Final = 2.0


async def _serve(folder: Path, minor: str, scheduler: str, collected: float) -> None:
    log = AuditLog(folder)
    arguments = {APISERVER: log.arguments()}
    if collected:
        rate = (f"--kube-api-qps={collected}", f"--kube-api-burst={round(collected * _BURST)}")
        arguments[CONTROLLER_MANAGER] = rate
    options = Options(minor=minor, third_party=scheduler, arguments=arguments, say=lambda _: None)
    async with RealControlPlane(options) as plane:
        plane.kubeconfig(folder / "kubeconfig")
        plane.kubeconfig_for(OPERATOR, OPERATOR_GROUPS, path=folder / "operator.kubeconfig")
        await _furnish(folder / "kubeconfig")
        furnished = time.monotonic()
        # Its garbage collector would look for new kinds after half a minute only.
        await plane.restart(CONTROLLER_MANAGER)
        await asyncio.sleep(max(0.0, furnished + _NEW_KIND_SECONDS - time.monotonic()))
        answering = asyncio.create_task(_answers(plane, log))
        broken = asyncio.create_task(plane.wait())
        try:
            await asyncio.wait({answering, broken}, return_when=asyncio.FIRST_COMPLETED)
            for task in (answering, broken):
                if task.done():
                    task.result()
        finally:
            for task in (answering, broken):
                task.cancel()
            await asyncio.gather(answering, broken, return_exceptions=True)


async def _furnish(kubeconfig: Path) -> None:
    """Grove's kinds, who the operator is, what it may do, and its share of the API server."""
    client = Client(HttpTransport(load(str(kubeconfig))), field_manager="grove-bench")
    try:
        await install_crds(client)
        for name in _DEPLOYED:
            for each in yaml.safe_load_all((ROOT / "deploy" / name).read_text(encoding="utf-8")):
                group, _, version = str(each["apiVersion"]).rpartition("/")
                namespaced = "namespace" in each["metadata"]
                await client.create(resource(group, version, str(each["kind"]), namespaced=namespaced), each)
    finally:
        await client.close()


async def _answers(plane: RealControlPlane, log: AuditLog) -> None:
    answer({})
    async for question in questions():
        if question == "forget":
            log.forget()
            answer({})
        elif question == "pids":
            answer(plane.pids)
        else:
            answer(log.writes())


async def _until_told(folder: Path, minor: str, scheduler: str, collected: str) -> int:
    try:
        await until_told(_serve(folder, minor, scheduler, float(collected)))
    except GroveError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run_loop(_until_told(Path(sys.argv[1]), *sys.argv[2:])))
