"""Which permissions the operator finds that it lacks, and with how many questions."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from grove.api import kinds
from grove.api.config import load
from grove.cli.permissions import LEASES, RULES, Need, covered, missing, needed, sentence
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.faults import Fault
from grove.kube.client import Client
from grove.kube.config import load as connection
from grove.kube.transport import HttpTransport
from grove.meta import Manifest

T = TypeVar("T")
GROUP = "/apis/rbac.authorization.k8s.io/v1"
NEEDS = needed(load(""), [], namespace="default")
OF_A_LEASE = [Need(verb, LEASES, namespace="default") for verb in ("get", "create", "update")]

#: Everything but four verbs on pods.
WEAK = [
    {"apiGroups": ["grove.io", "scheduler.grove.io"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["services", "serviceaccounts", "events"], "verbs": ["*"]},
    {
        "apiGroups": ["apps", "autoscaling", "policy", "resource.k8s.io", "resource.nvidia.com"],
        "resources": ["*"],
        "verbs": ["*"],
    },
    {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]},
]
DENIED = [Need(verb, kinds.PODS) for verb in ("get", "create", "patch", "delete")]

COVERED = {
    "what a rule names": ({"resources": ["pods"]}, Need("list", kinds.PODS), True),
    "another verb": ({"resources": ["pods"]}, Need("delete", kinds.PODS), False),
    "every verb": ({"resources": ["pods"], "verbs": ["*"]}, Need("delete", kinds.PODS), True),
    "another group": ({"resources": ["pods"], "apiGroups": ["x"]}, Need("list", kinds.PODS), False),
    "every group and resource": ({"resources": ["*"], "apiGroups": ["*"]}, Need("list", kinds.GANGS), True),
    "a part of what is named": ({"resources": ["pods"]}, Need("list", kinds.PODS, "status"), False),
    "a part that is named": ({"resources": ["pods/status"]}, Need("list", kinds.PODS, "status"), True),
    "this part of everything": ({"resources": ["*/status"]}, Need("list", kinds.PODS, "status"), True),
    "the whole of a part that is named": ({"resources": ["pods/status"]}, Need("list", kinds.PODS), False),
    "one by its name": (
        {"resources": ["pods"], "resourceNames": ["a"]},
        Need("list", kinds.PODS, name="a"),
        True,
    ),
    "another one": (
        {"resources": ["pods"], "resourceNames": ["a"]},
        Need("list", kinds.PODS, name="b"),
        False,
    ),
    "all where one is named": (
        {"resources": ["pods"], "resourceNames": ["a"]},
        Need("list", kinds.PODS),
        False,
    ),
    "paths that are no resources": ({"nonResourceURLs": ["*"]}, Need("list", kinds.PODS), False),
}


@pytest.mark.parametrize(("given", "need", "want"), COVERED.values(), ids=COVERED)
def test_what_a_rule_covers(given: Manifest, need: Need, want: bool) -> None:
    rule = {"apiGroups": [""], "verbs": ["list"], **given}
    assert covered(need, [{"apiGroups": ["other"], "resources": ["*"], "verbs": ["*"]}, rule]) is want


def test_permissions_that_are_missing_are_found_and_listed(tmp_path: Path) -> None:
    async def look(cluster: EmbeddedCluster, client: Client) -> list[Need]:
        denied = await missing(client, NEEDS)
        asked = [each.resource for each in cluster.requests if each.resource.startswith("selfsubject")]
        assert len(asked) == 1 + len(DENIED), "one question about rules, one for each need that none shows"
        return denied

    assert with_rules(tmp_path, WEAK, look) == DENIED
    assert sentence(DENIED) == "pods (get, create, patch, delete)"


def test_a_role_of_one_namespace_allows_nothing_in_the_cluster(tmp_path: Path) -> None:
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]

    async def look(cluster: EmbeddedCluster, client: Client) -> list[Need]:
        return await missing(client, [*NEEDS, *OF_A_LEASE])

    assert with_rules(tmp_path, everything, look, namespaced=True) == NEEDS


def test_without_an_answer_about_rules_each_permission_is_asked_about(tmp_path: Path) -> None:
    async def look(cluster: EmbeddedCluster, client: Client) -> list[Need]:
        cluster.faults.add(Fault("conflict", resource=RULES.plural))
        return await missing(client, [each for each in NEEDS if each.resource == kinds.PODS])

    assert with_rules(tmp_path, WEAK, look) == DENIED


def with_rules(
    folder: Path,
    rules: list[Manifest],
    look: Callable[[EmbeddedCluster, Client], Awaitable[T]],
    *,
    namespaced: bool = False,
) -> T:
    """What is seen by an account with these rules, in the cluster or in its namespace."""

    async def run() -> T:
        async with EmbeddedCluster(ClusterOptions(nodes=0, actors=False, force=True)) as cluster:
            admin = cluster.client()
            home = "/api/v1/namespaces/default"
            await admin.create(f"{home}/serviceaccounts", {"metadata": {"name": "weak"}})
            kind, where = (
                ("Role", f"{GROUP}/namespaces/default/")
                if namespaced
                else ("ClusterRole", f"{GROUP}/cluster")
            )
            await admin.create(f"{where}roles", {"metadata": {"name": "weak"}, "rules": rules})
            binding = {
                "metadata": {"name": "weak"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "weak"},
                "subjects": [{"kind": "ServiceAccount", "name": "weak", "namespace": "default"}],
            }
            await admin.create(f"{where}rolebindings", binding)
            token = await admin.create(f"{home}/serviceaccounts/weak/token", {"spec": {}})
            file = folder / "weak"
            content = cluster.kubeconfig()
            content["users"][0]["user"] = {"token": token["status"]["token"]}
            file.write_text(yaml.safe_dump(content))
            client = Client(HttpTransport(connection(str(file))))
            try:
                return await look(cluster, client)
            finally:
                await client.close()

    return asyncio.run(run())
