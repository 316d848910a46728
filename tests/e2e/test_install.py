"""A release of the chart lives on a real control plane, and the operator needs nothing that it does not give."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.processes import kubectl, started
from tests.deploy.helm import FOUND, MISSING, NAMESPACE, Installed, live_a_whole_life
from tests.e2e.conftest import asked

from grove.cli.manifests.flow_control import desired_flow_control
from grove.cli.manifests.installation import desired_installation
from grove.cli.manifests.values import values_from
from grove.kube.config import load
from grove.kube.transport import HttpTransport
from grove.real import Options, RealControlPlane
from grove.real.versions import APISERVER

pytestmark = [pytest.mark.real, pytest.mark.skipif(FOUND is None, reason=MISSING)]

OPERATOR = f"system:serviceaccount:{NAMESPACE}:grove-operator"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [OPERATOR]}, {"level": "None"}],
}


def everything_is_valid(kubeconfig: Path, folder: Path) -> None:
    """A real API server takes every object of an installation, webhooks included, without a field too many."""
    values = values_from({"keepWorkloads": True, "config": {"authorizer": {"enabled": True}}})
    objects = desired_installation(values, NAMESPACE)
    file = folder / "everything.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    ways = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = kubectl(kubeconfig, "apply", *ways, "-f", str(file))
    assert len(said.splitlines()) == len(objects)


def refused(log: Path) -> list[str]:
    """What the API server did not let the operator do, by the audit log."""
    entries: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    assert entries
    return [
        f"{each['verb']} {each['requestURI']}"
        for each in entries
        if each["responseStatus"].get("code") == 403
    ]


def test_a_release_lives_on_a_real_control_plane_and_leaves_nothing(tmp_path: Path) -> None:
    minor = asked("1.36").minor
    policy, log, kubeconfig = (tmp_path / name for name in ("policy.json", "audit.log", "kubeconfig"))
    policy.write_text(json.dumps(POLICY))
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking")
    plane = RealControlPlane(Options(minor=minor, arguments={APISERVER: audit}, say=lambda _: None))
    with asyncio.Runner() as runner:
        runner.run(plane.start())
        try:
            plane.kubeconfig(kubeconfig)
            guest = ("--control-plane", "kubeconfig", "--kubeconfig", str(kubeconfig), "--no-operator")
            with started("up", *guest, "--play-nodes", "--nodes", "4", folder=tmp_path) as nodes:
                nodes.wait_until_said("grove:")
                kubectl(kubeconfig, "create", "namespace", NAMESPACE)
                everything_is_valid(kubeconfig, tmp_path)
                release = Installed(kubeconfig, tmp_path)
                live_a_whole_life(release, tmp_path / "older")
                # The garbage collector learns of definitions, and of their end, every half minute.
                deadline = time.monotonic() + 150
                while (left := release.left()) and time.monotonic() < deadline:
                    time.sleep(0.5)
                assert left == []
                assert refused(log) == []
        finally:
            runner.run(plane.stop())


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


def test_the_operators_requests_are_in_their_own_flow_and_its_lease_with_other_leases(
    tmp_path: Path,
) -> None:
    minor = asked("1.36").minor
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
