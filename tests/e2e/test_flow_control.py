"""The requests of an installation's operator are handled on a real control plane as the chart says."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from tests.cli.processes import kubectl
from tests.deploy.helm import NAMESPACE
from tests.e2e.conftest import asked
from tests.e2e.judges import MINORS
from tests.e2e.plane import OPERATOR

from grove.cli.manifests.flow_control import desired_flow_control
from grove.cli.manifests.values import values_from
from grove.kube.config import load
from grove.kube.transport import HttpTransport
from grove.real import Options, RealControlPlane

pytestmark = pytest.mark.real


async def flow_of(kubeconfig: Path, path: str) -> str:
    """The UID of the FlowSchema by which an API server handled a request of this user."""
    transport = HttpTransport(load(str(kubeconfig)))
    try:
        return (await transport.send("GET", path)).headers["X-Kubernetes-PF-FlowSchema-UID"]
    finally:
        await transport.close()


async def wait_for_flow(kubeconfig: Path, path: str, uid: str) -> None:
    deadline = time.monotonic() + 30
    while (found := await flow_of(kubeconfig, path)) != uid:
        assert time.monotonic() < deadline, f"{path} is in the flow {found}"
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("minor", MINORS)
def test_the_operators_requests_are_in_their_own_flow_and_its_lease_with_other_leases(
    minor: str, tmp_path: Path
) -> None:
    asked(minor)
    account, admin = tmp_path / "account", tmp_path / "admin"
    paths = {
        "grove-operator": "/api/v1/namespaces/default/pods",
        "grove-operator-lease": f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/leader",
    }

    async def story() -> None:
        async with RealControlPlane(Options(minor=minor, say=lambda _: None)) as plane:
            plane.kubeconfig(admin)
            groups = ("system:serviceaccounts", "system:authenticated")
            plane.kubeconfig_for(OPERATOR, groups, path=account)
            objects = desired_flow_control(values_from(), NAMESPACE)
            file = tmp_path / "flow.json"
            file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
            await asyncio.to_thread(kubectl, admin, "apply", "--server-side", "-f", str(file))
            for name, path in paths.items():
                uid = await asyncio.to_thread(
                    kubectl, admin, "get", "flowschema", name, "-o", "jsonpath={.metadata.uid}"
                )
                # The API server learns of a new schema by a watch of its own.
                await wait_for_flow(account, path, uid)
                assert await flow_of(admin, path) != uid

    asyncio.run(story())
