"""The official kubectl against the embedded cluster, over HTTPS."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from tests.embedded.bare_cluster import gang_crd

from grove.embedded.cluster import ClusterOptions, EmbeddedCluster

KUBECTL = shutil.which(
    "kubectl", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
)
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
        },
    },
}
GANG = {
    "apiVersion": "sched.example.com/v1",
    "kind": "Gang",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 2},
}
CRD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **gang_crd()}


def converse(tmp_path: Path, *commands: str) -> list[str]:
    """Starts a cluster, runs the commands one after the other, and returns what they printed."""
    for name, content in (("crd", CRD), ("gang", GANG), ("deployment", DEPLOYMENT)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))

    async def run(command: str) -> str:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *command.split(),
            cwd=tmp_path,
            env={"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(60):
            output, _ = await process.communicate()
        return output.decode().strip()

    async def main() -> list[str]:
        async with EmbeddedCluster(ClusterOptions(nodes=2)) as cluster:
            cluster.kubeconfig(tmp_path / "config")
            return [await run(command) for command in commands]

    return asyncio.run(main())


def test_kubectl_applies_by_both_ways_and_sees_no_difference_afterwards(tmp_path: Path) -> None:
    said = converse(
        tmp_path,
        "apply -f deployment.yaml",
        "diff -f deployment.yaml",
        "apply --server-side --force-conflicts -f deployment.yaml",
        "scale deployment web --replicas=5",
        "get deployment web -o jsonpath={.spec.replicas}",
        "apply --server-side -f deployment.yaml",
    )
    assert said[:5] == [
        "deployment.apps/web created",
        "",
        "deployment.apps/web serverside-applied",
        "deployment.apps/web scaled",
        "5",
    ]
    assert 'conflict with "kubectl" with subresource "scale"' in said[5]


def test_kubectl_works_with_a_custom_kind(tmp_path: Path) -> None:
    said = converse(
        tmp_path,
        "apply -f crd.yaml",
        "wait --for=condition=Established crd/gangs.sched.example.com --timeout=10s",
        "apply -f gang.yaml",
        "scale gang g --replicas=7",
        "explain gang.spec.minMember",
        "get gg --no-headers",
        "delete -f crd.yaml",
    )
    assert said[2] == "gang.sched.example.com/g created"
    assert said[3] == "gang.sched.example.com/g scaled"
    assert "FIELD: minMember <integer>" in said[4]
    assert said[5].split()[:2] == ["g", "2"]
    assert "deleted" in said[6]


def test_kubectl_runs_waits_describes_and_deletes_a_pod(tmp_path: Path) -> None:
    said = converse(
        tmp_path,
        "run p --image=busybox:1",
        "wait pod/p --for=condition=Ready --timeout=30s",
        "logs p",
        "describe pod p",
        "events",
        "exec p -- true",
        "delete pod p --timeout=30s",
        "auth can-i create pods",
        "auth can-i create pods --as=nobody",
        "create namespace team",
    )
    assert said[1] == "pod/p condition met"
    assert "p: simulated container" in said[2]
    assert "Node:             node-" in said[3]
    assert "Scheduled" in said[4]
    assert "not part of the embedded cluster" in said[5]
    assert said[6].startswith('pod "p" deleted')
    assert said[7:] == ["yes", "no", "namespace/team created"]
