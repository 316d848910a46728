"""Who waits for whom, and the init container that makes pods wait."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from grove.api.clique import PodCliqueSpec
from grove.api.cliqueset import ANY_ORDER, EXPLICIT, IN_ORDER, PodCliqueSetTemplate, PodCliqueTemplate
from grove.api.cliqueset import ScalingGroupConfig as Group
from grove.meta import Manifest
from grove.plan.children import CliqueSetState, Settled, plan_children
from grove.plan.layout import Layout
from grove.plan.pods import NewPod, desired_pod
from grove.plan.startup import (
    Wait,
    image_with_tag,
    parent_cliques,
    service_accounts,
    wait_of,
    waiting_in_vain,
    waiting_roles,
    with_wait,
)
from grove.testing import make

DECODE = Group(name="dec", clique_names=("lead", "work"), replicas=3, min_available=1)


def role(name: str, *after: str, **pod_spec: object) -> PodCliqueTemplate:
    spec = PodCliqueSpec(role_name=name, replicas=1, starts_after=after, pod_spec=dict(pod_spec))
    return PodCliqueTemplate(name=name, spec=spec)


def template(startup: str, *roles: PodCliqueTemplate, groups: tuple[Group, ...] = ()) -> PodCliqueSetTemplate:
    return PodCliqueSetTemplate(cliques=roles, clique_startup_type=startup, pod_clique_scaling_groups=groups)


def order(found: PodCliqueSetTemplate, replica: int = 0) -> dict[str, list[str]]:
    """What each clique of a replica starts after."""
    layout = Layout("llm", found)
    cliques = list(layout.cliques(replica))
    return {clique.name: list(parent_cliques(layout, replica, clique)) for clique in cliques}


@dataclass(frozen=True)
class Case:
    template: PodCliqueSetTemplate
    want: dict[str, list[str]]
    replica: int = 0
    #: The roles whose pods wait at all.
    waiting: list[str] = field(default_factory=list)


CASES = {
    "any order": Case(
        template(ANY_ORDER, role("fe"), role("be", "fe")), {"llm-0-fe": [], "llm-0-be": []}, waiting=[]
    ),
    "in order, each after the one before it and no other": Case(
        template(IN_ORDER, role("a"), role("b"), role("c")),
        {"llm-1-a": [], "llm-1-b": ["llm-1-a"], "llm-1-c": ["llm-1-b"]},
        replica=1,
        waiting=["b", "c"],
    ),
    "in order, a role alone": Case(template(IN_ORDER, role("a")), {"llm-0-a": []}, waiting=[]),
    "explicit": Case(
        template(EXPLICIT, role("a"), role("b", "c", "a"), role("c", "a"), role("d")),
        {"llm-0-a": [], "llm-0-b": ["llm-0-c", "llm-0-a"], "llm-0-c": ["llm-0-a"], "llm-0-d": []},
        waiting=["b", "c"],
    ),
    "explicit, and nobody names anybody": Case(
        template(EXPLICIT, role("a"), role("b")), {"llm-0-a": [], "llm-0-b": []}, waiting=[]
    ),
    "the rendering that the specification works out": Case(
        template(IN_ORDER, role("fe"), role("lead"), role("work"), groups=(DECODE,)),
        {
            "llm-0-fe": [],
            "llm-0-dec-0-lead": ["llm-0-fe"],
            "llm-0-dec-0-work": ["llm-0-dec-0-lead"],
            # Scaled gangs: who stands outside of the group is not waited for, nor anybody before it.
            "llm-0-dec-1-lead": [],
            "llm-0-dec-1-work": ["llm-0-dec-1-lead"],
            "llm-0-dec-2-lead": [],
            "llm-0-dec-2-work": ["llm-0-dec-2-lead"],
        },
        waiting=["lead", "work"],
    ),
    "in the base gang a parent of a group is waited for in all replicas up to the minimum": Case(
        template(
            IN_ORDER,
            *(role("lead"), role("work"), role("fe")),
            groups=(Group(name="dec", clique_names=("lead", "work"), replicas=3, min_available=2),),
        ),
        {
            "llm-0-fe": ["llm-0-dec-0-work", "llm-0-dec-1-work"],
            "llm-0-dec-0-lead": [],
            "llm-0-dec-0-work": ["llm-0-dec-0-lead", "llm-0-dec-1-lead"],
            "llm-0-dec-1-lead": [],
            "llm-0-dec-1-work": ["llm-0-dec-0-lead", "llm-0-dec-1-lead"],
            "llm-0-dec-2-lead": [],
            "llm-0-dec-2-work": ["llm-0-dec-2-lead"],
        },
        waiting=["work", "fe"],
    ),
    "explicit, with parents inside and outside of the group": Case(
        template(EXPLICIT, role("fe"), role("lead"), role("work", "fe", "lead"), groups=(DECODE,)),
        {
            "llm-0-fe": [],
            "llm-0-dec-0-lead": [],
            "llm-0-dec-0-work": ["llm-0-fe", "llm-0-dec-0-lead"],
            "llm-0-dec-1-lead": [],
            "llm-0-dec-1-work": ["llm-0-dec-1-lead"],
            "llm-0-dec-2-lead": [],
            "llm-0-dec-2-work": ["llm-0-dec-2-lead"],
        },
        waiting=["work"],
    ),
    "names that end alike are told apart": Case(
        template(EXPLICIT, role("worker"), role("x-worker"), role("fe", "worker")),
        {"llm-0-worker": [], "llm-0-x-worker": [], "llm-0-fe": ["llm-0-worker"]},
        waiting=["fe"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_each_clique_starts_after(case: Case) -> None:
    assert order(case.template, case.replica) == case.want
    assert [each.name for each in waiting_roles(case.template)] == case.waiting


# The init container -------------------------------------------------------------------------------


def test_a_pod_waits_for_the_minimum_that_its_gang_needs_of_each_parent() -> None:
    gang = make.gang(podgroups={"train-0-fe": 2, "train-0-lead": 1, "train-0-worker": 3})
    clique = make.clique(spec={"startsAfter": ["train-0-fe", "train-0-lead"]})
    assert wait_of(clique, gang, "grove-initc:1") == Wait(
        {"train-0-fe": 2, "train-0-lead": 1}, "grove-initc:1"
    )


def test_nobody_waits_for_a_parent_that_is_scaled_to_zero() -> None:
    gang = make.gang(podgroups={"train-0-fe": 0, "train-0-lead": 1, "train-0-worker": 3})
    both = make.clique(spec={"startsAfter": ["train-0-fe", "train-0-lead"]})
    assert wait_of(both, gang, "i") == Wait({"train-0-lead": 1}, "i")
    assert wait_of(make.clique(spec={"startsAfter": ["train-0-fe"]}), gang, "i") is None


VAIN = {
    "waits for a role that is asleep": ("train-0-fe", {}, True),
    "waits for one that is not": ("train-0-lead", {}, False),
    "is on a node and waits": ("train-0-fe", {"node": "n1", "phase": "Pending"}, True),
    "runs": ("train-0-fe", {"node": "n1"}, False),
    "is going": ("train-0-fe", {"deleted": True}, False),
}


@pytest.mark.parametrize(("parent", "fields", "vain"), VAIN.values(), ids=VAIN)
def test_only_pods_that_have_yet_to_start_can_wait_in_vain(
    parent: str, fields: dict[str, Any], vain: bool
) -> None:
    gang = make.gang(podgroups={"train-0-fe": 0, "train-0-lead": 1, "train-0-worker": 3})
    spec = with_wait(make.pod_spec(), Wait({parent: 2}, "i"))
    pod = make.pod(name="it", spec={"initContainers": spec["initContainers"]}, **fields)
    assert waiting_in_vain(gang, [pod]) == ({"it"} if vain else set())


def test_a_clique_without_parents_waits_for_nothing() -> None:
    assert wait_of(make.clique(), make.gang(), "i") is None


WAIT = Wait({"llm-0-fe": 2, "llm-0-lead": 1}, "registry.example.com/grove-initc:0.1.0")
MOUNTS = [
    {"name": "pod-info-vol", "mountPath": "/var/grove/pod-info", "readOnly": True},
    {
        "name": "sa-token-vol",
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "readOnly": True,
    },
]
SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "runAsNonRoot": True,
}


def test_the_container_is_called_as_the_go_operators() -> None:
    made = with_wait({"containers": [{"name": "main"}]}, WAIT)
    assert made["initContainers"] == [
        {
            "name": "grove-initc",
            "image": "registry.example.com/grove-initc:0.1.0",
            "args": ["--podcliques=llm-0-fe:2", "--podcliques=llm-0-lead:1"],
            "volumeMounts": MOUNTS,
            "securityContext": SECURITY,
        }
    ]


def test_it_comes_last_and_all_others_keep_their_order_and_content() -> None:
    theirs = [
        {"name": "download", "image": "a"},
        {"name": "proxy", "image": "b", "restartPolicy": "Always"},
        {"name": "check", "image": "c"},
    ]
    spec: Manifest = {
        "containers": [{"name": "main"}],
        "initContainers": theirs,
        "volumes": [{"name": "data"}],
    }
    made = with_wait(spec, WAIT)
    assert made["initContainers"][:-1] == theirs
    assert made["initContainers"][-1]["name"] == "grove-initc"
    assert [each["name"] for each in made["volumes"]] == ["data", "pod-info-vol", "sa-token-vol"]
    assert made["containers"] == [{"name": "main"}]
    assert len(spec["initContainers"]) == 3


def test_its_token_is_the_pods_own_expires_and_is_for_this_container_alone() -> None:
    made = with_wait({"containers": [{"name": "main"}], "serviceAccountName": "theirs"}, WAIT)
    info, token = made["volumes"]
    assert info["downwardAPI"]["items"] == [
        {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
        {"path": "podgangname", "fieldRef": {"fieldPath": "metadata.labels['grove.io/podgang']"}},
    ]
    assert token["projected"]["sources"] == [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    assert made["serviceAccountName"] == "theirs"
    assert "volumeMounts" not in made["containers"][0]


def test_a_pod_that_runs_as_root_may_do_so() -> None:
    spec: Manifest = {"containers": [{"name": "main"}], "securityContext": {"runAsUser": 0}}
    (container,) = with_wait(spec, WAIT)["initContainers"]
    assert "runAsNonRoot" not in container["securityContext"]


def resources(**fields: dict[str, str]) -> Manifest:
    return {"name": "main", "resources": fields}


EXACT = {"cpu": "4", "memory": "8Gi"}
CLASSES: dict[str, tuple[list[Manifest], list[Manifest], Manifest | None]] = {
    "nothing asked for": ([{"name": "main"}], [], None),
    "less asked for than allowed": ([resources(limits=EXACT, requests={**EXACT, "cpu": "1"})], [], None),
    "no limit of memory": ([resources(limits={"cpu": "4"})], [], None),
    "exact": ([resources(limits=EXACT, requests=EXACT)], [], {"limits": EXACT, "requests": EXACT}),
    "limits alone": ([resources(limits=EXACT)], [], {"limits": EXACT, "requests": EXACT}),
    "devices are not copied": (
        [resources(limits={**EXACT, "nvidia.com/gpu": "8"})],
        [],
        {"limits": EXACT, "requests": EXACT},
    ),
    "an init container that asks for nothing": ([resources(limits=EXACT)], [{"name": "init"}], None),
}


@pytest.mark.parametrize(("containers", "init", "want"), CLASSES.values(), ids=CLASSES)
def test_a_pod_keeps_its_quality_of_service(
    containers: list[Manifest], init: list[Manifest], want: Manifest | None
) -> None:
    made = with_wait({"containers": containers, "initContainers": init}, WAIT)
    assert made["initContainers"][-1].get("resources") == want


def test_a_new_pod_has_it_behind_the_environment_of_the_others() -> None:
    containers = {"containers": [{"name": "m"}], "initContainers": [{"name": "download"}]}
    clique = make.clique(spec={"podSpec": containers})
    pod = desired_pod(clique, NewPod(0, "train-0-worker-abcde"), "revision", WAIT)
    download, waiting = pod["spec"]["initContainers"]
    assert (download["name"], waiting["name"]) == ("download", "grove-initc")
    assert download["env"]
    assert "env" not in waiting


# Permission and image -----------------------------------------------------------------------------


def access(startup: str, *roles: Manifest, replicas: int = 1) -> dict[str, Manifest]:
    """The role and the binding that a set gets, by kind."""
    order = {"cliqueStartupType": startup}
    cliqueset = make.cliqueset("llm", roles, replicas=replicas, namespace="inf", template=order)
    creations = plan_children(CliqueSetState(cliqueset, backend="default"), Settled()).creations()
    found = [change.manifest for change in creations if change is not None]
    return {each["kind"]: each for each in found if each["kind"] in ("Role", "RoleBinding")}


def serving(name: str, account: str = "") -> Manifest:
    found = make.template(name, 1)
    if account:
        found["spec"]["podSpec"]["serviceAccountName"] = account
    return found


def test_the_accounts_of_the_pods_that_wait_may_watch_pods_and_no_others() -> None:
    found = access(
        IN_ORDER, serving("a", "first"), serving("b", "theirs"), serving("c"), serving("d", "theirs")
    )
    labels = {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "llm",
        "app.kubernetes.io/name": "grove.io-pcs-llm",
    }
    role_metadata, binding_metadata = (found[kind]["metadata"] for kind in ("Role", "RoleBinding"))
    assert role_metadata["labels"] == {**labels, "app.kubernetes.io/component": "pod-role"}
    assert binding_metadata["labels"] == {**labels, "app.kubernetes.io/component": "pod-role-binding"}
    assert role_metadata["name"] == binding_metadata["name"] == "grove.io:pcs:llm"
    assert role_metadata["namespace"] == binding_metadata["namespace"] == "inf"
    assert found["Role"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    ]
    assert found["RoleBinding"]["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "grove.io:pcs:llm",
    }
    assert found["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "default", "namespace": "inf"},
        {"kind": "ServiceAccount", "name": "theirs", "namespace": "inf"},
    ]


def test_there_is_one_role_however_many_replicas_there_are() -> None:
    assert set(access(IN_ORDER, serving("a"), serving("b"), replicas=3)) == {"Role", "RoleBinding"}


@pytest.mark.parametrize(("startup", "replicas"), [(ANY_ORDER, 1), (EXPLICIT, 1), (IN_ORDER, 0)])
def test_where_nobody_waits_nothing_is_granted(startup: str, replicas: int) -> None:
    assert access(startup, serving("a"), serving("b"), replicas=replicas) == {}


def test_accounts_are_named_once_whatever_the_field_is_called() -> None:
    roles = [role("a", serviceAccountName="x"), role("b", serviceAccount="x"), role("c")]
    assert service_accounts(roles) == ["default", "x"]


IMAGES = {
    "": "grove-initc:0.1.0",
    "grove-initc": "grove-initc:0.1.0",
    " grove-initc ": "grove-initc:0.1.0",
    "registry.example.com/grove-initc": "registry.example.com/grove-initc:0.1.0",
    "registry.example.com:5000/grove-initc": "registry.example.com:5000/grove-initc:0.1.0",
    "registry.example.com:5000/grove-initc:v2": "registry.example.com:5000/grove-initc:v2",
    "grove-initc:v2": "grove-initc:v2",
    "grove-initc@sha256:0123": "grove-initc@sha256:0123",
}


@pytest.mark.parametrize(("image", "want"), IMAGES.items(), ids=IMAGES)
def test_an_image_without_a_tag_gets_our_version(image: str, want: str) -> None:
    assert image_with_tag(image, "0.1.0") == want
