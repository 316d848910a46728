"""Roles and bindings: who may do what, and how a refusal reads."""

from __future__ import annotations

from typing import Any

import pytest

from grove.embedded.access.rbac import Attributes, Authorizer
from grove.embedded.errors import ApiError
from grove.embedded.identity import ADMIN, User
from grove.embedded.machinery.selectors import selected_name

Manifest = dict[str, Any]
ANN = User("ann", ("team", "system:authenticated"))
ROBOT = User("system:serviceaccount:d:robot", ("system:serviceaccounts",))


def role(name: str, *rules: Manifest, **meta: Any) -> Manifest:
    return {"metadata": {"name": name, **meta}, "rules": list(rules)}


def binding(role_name: str, *subjects: Manifest, kind: str = "ClusterRole", namespace: str = "") -> Manifest:
    meta: Manifest = {"name": f"{role_name}-binding"}
    if namespace:
        meta["namespace"] = namespace
    return {"metadata": meta, "subjects": list(subjects), "roleRef": {"kind": kind, "name": role_name}}


def rule(verbs: str, resources: str = "pods", group: str = "", **more: Any) -> Manifest:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split(), **more}


USER_ANN = {"kind": "User", "name": "ann"}
GROUP_TEAM = {"kind": "Group", "name": "team"}
ACCOUNT = {"kind": "ServiceAccount", "name": "robot", "namespace": "d"}


def authorizer(**stored: list[Manifest]) -> Authorizer:
    def of(plural: str, namespace: str) -> list[Manifest]:
        return [
            o
            for o in stored.get(plural, [])
            if not namespace or o["metadata"].get("namespace", "") == namespace
        ]

    return Authorizer(
        find=lambda group, plural, namespace, name: next(
            (o for o in of(plural, namespace) if o["metadata"]["name"] == name), None
        ),
        all_of=lambda group, plural, namespace: of(plural, namespace),
    )


READER = role("reader", rule("get list"))
LIST_D = Attributes("list", resource="pods", namespace="d")
CASES: dict[str, tuple[dict[str, list[Manifest]], User, Attributes, bool]] = {
    "nothing is allowed without a binding": ({"clusterroles": [READER]}, ANN, LIST_D, False),
    "masters may do anything": ({}, ADMIN, Attributes("delete", resource="nodes", name="n"), True),
    "a user": (
        {"clusterroles": [READER], "clusterrolebindings": [binding("reader", USER_ANN)]},
        ANN,
        LIST_D,
        True,
    ),
    "a group": (
        {"clusterroles": [READER], "clusterrolebindings": [binding("reader", GROUP_TEAM)]},
        ANN,
        LIST_D,
        True,
    ),
    "a service account": (
        {"clusterroles": [READER], "clusterrolebindings": [binding("reader", ACCOUNT)]},
        ROBOT,
        LIST_D,
        True,
    ),
    "another verb": (
        {"clusterroles": [READER], "clusterrolebindings": [binding("reader", USER_ANN)]},
        ANN,
        Attributes("create", resource="pods", namespace="d"),
        False,
    ),
    "a cluster role bound in a namespace": (
        {"clusterroles": [READER], "rolebindings": [binding("reader", USER_ANN, namespace="d")]},
        ANN,
        LIST_D,
        True,
    ),
    "not in another namespace": (
        {"clusterroles": [READER], "rolebindings": [binding("reader", USER_ANN, namespace="d")]},
        ANN,
        Attributes("list", resource="pods", namespace="e"),
        False,
    ),
    "not cluster-wide": (
        {"clusterroles": [READER], "rolebindings": [binding("reader", USER_ANN, namespace="d")]},
        ANN,
        Attributes("list", resource="pods"),
        False,
    ),
    "a role of the namespace": (
        {
            "roles": [role("r", rule("list"), namespace="d")],
            "rolebindings": [binding("r", USER_ANN, kind="Role", namespace="d")],
        },
        ANN,
        LIST_D,
        True,
    ),
    "a subresource is another resource": (
        {
            "clusterroles": [role("reader", rule("patch"))],
            "clusterrolebindings": [binding("reader", USER_ANN)],
        },
        ANN,
        Attributes("patch", resource="pods", subresource="status", namespace="d"),
        False,
    ),
    "a subresource of anything": (
        {
            "clusterroles": [role("reader", rule("patch", "*/status"))],
            "clusterrolebindings": [binding("reader", USER_ANN)],
        },
        ANN,
        Attributes("patch", resource="pods", subresource="status", namespace="d"),
        True,
    ),
    "only some names": (
        {
            "clusterroles": [role("reader", rule("get", resourceNames=["a"]))],
            "clusterrolebindings": [binding("reader", USER_ANN)],
        },
        ANN,
        Attributes("get", resource="pods", namespace="d", name="b"),
        False,
    ),
    "that name": (
        {
            "clusterroles": [role("reader", rule("get", resourceNames=["a"]))],
            "clusterrolebindings": [binding("reader", USER_ANN)],
        },
        ANN,
        Attributes("get", resource="pods", namespace="d", name="a"),
        True,
    ),
    "discovery is for everyone": ({}, ANN, Attributes("get", path="/apis/apps/v1"), True),
    "metrics are not": ({}, ANN, Attributes("get", path="/metrics"), False),
    "a path": (
        {
            "clusterroles": [role("m", {"verbs": ["get"], "nonResourceURLs": ["/metrics"]})],
            "clusterrolebindings": [binding("m", USER_ANN)],
        },
        ANN,
        Attributes("get", path="/metrics"),
        True,
    ),
    "everyone may ask what they may do": (
        {},
        ANN,
        Attributes("create", group="authorization.k8s.io", resource="selfsubjectaccessreviews"),
        True,
    ),
    "cluster-admin needs no stored role": (
        {"clusterrolebindings": [binding("cluster-admin", USER_ANN)]},
        ANN,
        LIST_D,
        True,
    ),
}


@pytest.mark.parametrize(("stored", "user", "asked", "want"), CASES.values(), ids=CASES)
def test_who_may_what(stored: dict[str, list[Manifest]], user: User, asked: Attributes, want: bool) -> None:
    assert authorizer(**stored).allows(user, asked) is want


REFUSALS: dict[str, Attributes] = {
    'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "d"': LIST_D,
    'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope': Attributes(
        "list", resource="nodes"
    ),
    'deployments.apps "x" is forbidden: User "ann" cannot patch resource "deployments/status" in API group "apps" in the namespace "d"': Attributes(
        "patch", group="apps", resource="deployments", subresource="status", namespace="d", name="x"
    ),
    'forbidden: User "ann" cannot get path "/metrics"': Attributes("get", path="/metrics"),
}


@pytest.mark.parametrize("want", REFUSALS)
def test_a_refusal_reads_as_the_servers(want: str) -> None:
    with pytest.raises(ApiError) as refused:
        authorizer().check(ANN, REFUSALS[want])
    assert (refused.value.status, refused.value.reason, refused.value.message) == (403, "Forbidden", want)


@pytest.mark.parametrize(
    ("fields", "want"),
    {
        "metadata.name=a": "a",
        "status.phase=Running,metadata.name==a": "a",
        "metadata.name!=a": "",
        "spec.nodeName=a": "",
        "": "",
    }.items(),
)
def test_a_list_of_one_name_is_judged_like_a_look_at_that_object(fields: str, want: str) -> None:
    assert selected_name(fields) == want
    stored = {
        "clusterroles": [role("reader", rule("list", resourceNames=["a"]))],
        "clusterrolebindings": [binding("reader", USER_ANN)],
    }
    asked = Attributes("list", resource="pods", namespace="d", name=selected_name(fields))
    assert authorizer(**stored).allows(ANN, asked) is bool(want)
