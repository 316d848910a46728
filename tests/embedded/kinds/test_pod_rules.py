"""Pods and other core kinds: defaults, what is refused at creation, what an update may change, binding, deletion."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grove.embedded.errors import ApiError
from grove.embedded.identity import ADMIN
from grove.embedded.kinds import strategy_for
from grove.embedded.kinds.context import Context
from grove.embedded.kinds.pod import bind, quality_of_service
from grove.embedded.kinds.registry import Registry
from grove.embedded.machinery.options import DeleteOptions

Manifest = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
REGISTRY = Registry("1.36")
ONLY_THESE = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def context(api_version: str = "v1", kind: str = "Pod", *, classes: tuple[Manifest, ...] = ()) -> Context:
    resource = REGISTRY.by_kind(api_version, kind)
    assert resource is not None
    by_name = {found["metadata"]["name"]: found for found in classes}
    return Context(
        resource=resource,
        now=NOW,
        user=ADMIN,
        minor="1.36",
        find=lambda group, plural, namespace, name: (
            by_name.get(name) if plural == "priorityclasses" else None
        ),
        all_of=lambda group, plural, namespace: list(classes) if plural == "priorityclasses" else [],
        new_cluster_ip=lambda: "10.96.0.7",
    )


def created(obj: Manifest, ctx: Context) -> tuple[Manifest, list[str]]:
    """The object as a create would store it, and what is wrong with it."""
    obj = copy.deepcopy(obj)
    strategy = strategy_for(ctx.resource)
    strategy.prepare_create(obj, ctx)
    strategy.default(obj, ctx)
    return obj, [f"{cause.field}: {cause.message}" for cause in strategy.validate_create(obj, ctx)]


def updated(old: Manifest, new: Manifest, ctx: Context) -> list[str]:
    new = copy.deepcopy(new)
    strategy = strategy_for(ctx.resource)
    strategy.prepare_update(new, old, ctx)
    strategy.default(new, ctx)
    return [f"{cause.field}: {cause.message}" for cause in strategy.validate_update(new, old, ctx)]


def pod(**spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": [{"name": "c", "image": "busybox"}], **spec},
    }


def resources(requests: Manifest | None = None, limits: Manifest | None = None) -> list[Manifest]:
    return [{"name": "c", "image": "i", "resources": {"requests": requests or {}, "limits": limits or {}}}]


def test_a_pod_gets_the_defaults_of_a_real_server() -> None:
    obj, problems = created(pod(), context())
    trouble = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    assert problems == []
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert obj["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", **trouble},
            {"key": "node.kubernetes.io/unreachable", **trouble},
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def test_a_gated_pod_says_why_it_waits() -> None:
    obj, _ = created(
        {**pod(schedulingGates=[{"name": "a.com/x"}]), "status": {"phase": "Running"}}, context()
    )
    (condition,) = obj["status"]["conditions"]
    assert obj["status"]["phase"] == "Pending"
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


BAD_PODS: dict[str, tuple[Manifest, list[str]]] = {
    "no containers": (pod(containers=[]), ["spec.containers: Required value"]),
    "no image": (pod(containers=[{"name": "c"}]), ["spec.containers[0].image: Required value"]),
    "two containers of one name": (
        pod(containers=[{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]),
        ['spec.containers[1].name: Duplicate value: "c"'],
    ),
    "requests above limits": (
        pod(containers=resources({"cpu": "2"}, {"cpu": "1"})),
        [
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'
        ],
    ),
    "a device requested without a limit": (
        pod(containers=resources({"nvidia.com/gpu": "1"})),
        [
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"
        ],
    ),
    "a device requested below its limit": (
        pod(containers=resources({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"})),
        [
            'spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2'
        ],
    ),
    "half a device": (
        pod(containers=resources(limits={"nvidia.com/gpu": "500m"})),
        [
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
            'spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ],
    ),
    "a restart policy that does not exist": (
        pod(restartPolicy="Sometimes"),
        [
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"'
        ],
    ),
    "a node while gated": (
        pod(nodeName="n", schedulingGates=[{"name": "a.com/x"}]),
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    ),
    "a gang link without a name": (
        pod(schedulingGroup={}),
        ["spec.schedulingGroup.podGroupName: Required value"],
    ),
}


@pytest.mark.parametrize(("obj", "want"), BAD_PODS.values(), ids=BAD_PODS)
def test_a_bad_pod_is_refused(obj: Manifest, want: list[str]) -> None:
    assert created(obj, context())[1] == want


def test_limits_are_requests_unless_said_otherwise() -> None:
    obj, problems = created(
        pod(containers=[{"name": "c", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]),
        context(),
    )
    assert (obj["spec"]["containers"][0]["resources"]["requests"], problems) == ({"nvidia.com/gpu": "8"}, [])


QUALITIES = {
    "BestEffort": resources(),
    "Burstable": resources({"cpu": "1"}),
    "Guaranteed": resources({"cpu": "1000m", "memory": "1Gi"}, {"cpu": "1", "memory": "1024Mi"}),
}


@pytest.mark.parametrize("want", QUALITIES)
def test_quality_of_service(want: str) -> None:
    assert quality_of_service({"containers": QUALITIES[want]}) == want


def priority_class(name: str, value: int, **more: Any) -> Manifest:
    return {"metadata": {"name": name}, "value": value, **more}


def test_priority_comes_from_the_class_or_the_global_default() -> None:
    classes = (
        priority_class("high", 100, preemptionPolicy="Never"),
        priority_class("base", 5, globalDefault=True),
    )
    named, _ = created(pod(priorityClassName="high"), context(classes=classes))
    plain, _ = created(pod(), context(classes=classes))
    assert (named["spec"]["priority"], named["spec"]["preemptionPolicy"]) == (100, "Never")
    assert (plain["spec"]["priority"], plain["spec"]["priorityClassName"]) == (5, "base")


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"priorityClassName": "nope"}, 'pods "p" is forbidden: no PriorityClass with name nope was found'),
        (
            {"priority": 7},
            'pods "p" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission '
            "controller computed 0 from the given PriorityClass name",
        ),
    ],
)
def test_a_priority_that_cannot_be_resolved_is_forbidden(spec: Manifest, want: str) -> None:
    with pytest.raises(ApiError) as refused:
        created(pod(**spec), context())
    assert (refused.value.status, refused.value.message) == (403, want)


GATED = {"schedulingGates": [{"name": "a.com/x"}, {"name": "a.com/y"}]}
LINK = {"schedulingGroup": {"podGroupName": "g"}}


def terms(*keys: str) -> Manifest:
    expressions = [{"key": key, "operator": "Exists"} for key in keys]
    needed = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}}}


UPDATES: dict[str, tuple[Manifest, Manifest, list[str]]] = {
    "the image may change": (
        {},
        {"containers": [{"name": "c", "image": "busybox:2", "imagePullPolicy": "Always"}]},
        [],
    ),
    "the command may not": (
        {},
        {"containers": [{"name": "c", "image": "busybox", "command": ["x"]}]},
        [ONLY_THESE],
    ),
    "a toleration may be added": ({}, {"tolerations": [{"key": "x", "operator": "Exists"}]}, []),
    "the node may not be set": ({}, {"nodeName": "n"}, [ONLY_THESE]),
    "a gate may be removed": (GATED, {"schedulingGates": [{"name": "a.com/y"}]}, []),
    "a gate may not be added": (
        GATED,
        {"schedulingGates": [{"name": "a.com/z"}]},
        [
            "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate 'a.com/z'"
        ],
    ),
    "a gated pod may be given a node selector": (GATED, {"nodeSelector": {"k": "v"}}, []),
    "a gated pod may not change its node selector": (
        {**GATED, "nodeSelector": {"k": "v"}},
        {"nodeSelector": {"k": "w"}},
        [
            'spec.nodeSelector: Invalid value: {"k":"w"}: only additions are allowed (no mutations or deletions)'
        ],
    ),
    "an ungated pod may not be given a node selector": ({}, {"nodeSelector": {"k": "v"}}, [ONLY_THESE]),
    "a gated pod may narrow its node affinity": ({**GATED, **terms("a")}, terms("a", "b"), []),
    "the gang link is fixed even while gated": (
        {**GATED, **LINK},
        {"schedulingGroup": {"podGroupName": "other"}},
        [ONLY_THESE],
    ),
    "a deadline may shrink": ({"activeDeadlineSeconds": 10}, {"activeDeadlineSeconds": 5}, []),
    "a deadline may not grow": (
        {"activeDeadlineSeconds": 10},
        {"activeDeadlineSeconds": 11},
        ["spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value 10"],
    ),
}


@pytest.mark.parametrize(("spec", "change", "want"), UPDATES.values(), ids=UPDATES)
def test_pod_updates(spec: Manifest, change: Manifest, want: list[str]) -> None:
    ctx = context()
    old, _ = created(pod(**spec), ctx)
    new = copy.deepcopy(old)
    new["spec"].update(copy.deepcopy(change))
    assert updated(old, new, ctx) == want


def test_narrowing_means_that_no_expression_of_the_affinity_goes() -> None:
    ctx = context()
    old, _ = created(pod(**GATED, **terms("a")), ctx)
    new = copy.deepcopy(old)
    new["spec"].update(terms("b"))
    (problem,) = updated(old, new, ctx)
    assert problem.startswith(
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value"
    )


BINDING = {"target": {"kind": "Node", "name": "nX"}}


def test_binding_sets_the_node_and_the_condition_and_leaves_the_stored_pod_alone() -> None:
    ctx = context()
    stored, _ = created(pod(), ctx)
    before = copy.deepcopy(stored)
    bound = bind(stored, {**BINDING, "metadata": {"annotations": {"a": "1"}}}, ctx)
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]) == ("nX", {"a": "1"})
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    assert stored == before


UNBINDABLE = {
    "already bound": (pod(nodeName="nX"), 'pod p is already assigned to node "nX"'),
    "gated": (pod(schedulingGates=[{"name": "g"}]), "pod p has non-empty .spec.schedulingGates"),
    "being deleted": (
        {**pod(), "metadata": {"name": "p", "deletionTimestamp": NOW}},
        "pod p is being deleted, cannot be assigned to a host",
    ),
}


@pytest.mark.parametrize(("obj", "why"), UNBINDABLE.values(), ids=UNBINDABLE)
def test_a_pod_that_cannot_be_bound(obj: Manifest, why: str) -> None:
    with pytest.raises(ApiError) as refused:
        bind(obj, BINDING, context())
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == f'Operation cannot be fulfilled on pods/binding "p": {why}'


GRACE: dict[str, tuple[Manifest, str, int | None, int]] = {
    "an unbound pod goes at once": ({}, "Pending", None, 0),
    "a bound pod keeps its grace period": (
        {"nodeName": "n", "terminationGracePeriodSeconds": 30},
        "Running",
        None,
        30,
    ),
    "unless the caller says otherwise": ({"nodeName": "n"}, "Running", 0, 0),
    "a finished pod goes at once": ({"nodeName": "n"}, "Succeeded", None, 0),
}


@pytest.mark.parametrize(("spec", "phase", "asked", "want"), GRACE.values(), ids=GRACE)
def test_graceful_deletion(spec: Manifest, phase: str, asked: int | None, want: int) -> None:
    ctx = context()
    obj = {**pod(**spec), "status": {"phase": phase}}
    assert strategy_for(ctx.resource).graceful_delete(obj, DeleteOptions(grace_seconds=asked), ctx) == want


def named(**fields: Any) -> Manifest:
    return {"metadata": {"name": "x", "uid": "u", "namespace": "d"}, **fields}


def test_a_namespace_is_active_and_finalized_by_the_server() -> None:
    obj, problems = created(named(), context("v1", "Namespace"))
    assert (obj["spec"], obj["status"], problems) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"}, [])
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}


def test_a_service_gets_an_address_and_a_headless_one_does_not() -> None:
    plain, _ = created(named(spec={"ports": [{"port": 80}]}), context("v1", "Service"))
    headless, problems = created(named(spec={"clusterIP": "None"}), context("v1", "Service"))
    assert plain["spec"] == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7"],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    }
    assert (headless["spec"]["clusterIP"], headless["spec"]["clusterIPs"], problems) == ("None", ["None"], [])


def test_a_service_keeps_its_address() -> None:
    ctx = context("v1", "Service")
    old, _ = created(named(spec={"ports": [{"port": 80}]}), ctx)
    assert updated(old, named(spec={"ports": [{"port": 81}]}), ctx) == []
    (problem,) = updated(old, named(spec={"ports": [{"port": 81}], "clusterIP": "10.96.0.9"}), ctx)
    assert problem == 'spec.clusterIPs[0]: Invalid value: ["10.96.0.9"]: may not change once set'


def test_a_lease_keeps_its_microseconds() -> None:
    ctx = context("coordination.k8s.io/v1", "Lease")
    obj, problems = created(named(spec={"renewTime": "2026-01-01T00:00:00Z", "leaseDurationSeconds": 0}), ctx)
    assert obj["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert problems == ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]


def test_an_event_lives_where_its_object_lives() -> None:
    _, problems = created(named(involvedObject={"namespace": "other"}), context("v1", "Event"))
    assert problems == ['involvedObject.namespace: Invalid value: "other": does not match event.namespace']


def test_a_priority_class_keeps_its_value() -> None:
    ctx = context("scheduling.k8s.io/v1", "PriorityClass")
    old, problems = created({"metadata": {"name": "x"}, "value": 5}, ctx)
    assert (old["preemptionPolicy"], problems) == ("PreemptLowerPriority", [])
    assert updated(old, {**old, "value": 6}, ctx) == ["value: Forbidden: may not be changed in an update."]


def test_text_of_a_secret_is_stored_encoded() -> None:
    obj, _ = created(named(stringData={"a": "b"}), context("v1", "Secret"))
    assert (obj["data"], obj["type"], "stringData" in obj) == ({"a": "Yg=="}, "Opaque", False)


def test_a_job_gets_defaults_and_a_selector_of_its_own() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "b"}]}}
    obj, problems = created(named(spec={"template": template}), context("batch/v1", "Job"))
    spec = {name: value for name, value in obj["spec"].items() if name not in ("selector", "template")}
    assert problems == []
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert spec == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "manualSelector": False,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }


def deployment(selector: Manifest) -> Manifest:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "b"}]}}
    return named(spec={"selector": {"matchLabels": selector}, "template": template})


def test_a_deployments_selector_matches_its_template_and_never_changes() -> None:
    ctx = context("apps/v1", "Deployment")
    old, problems = created(deployment({"a": "b"}), ctx)
    assert problems == []
    assert old["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert created(deployment({"z": "z"}), ctx)[1] == [
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'
    ]
    changed = copy.deepcopy(old)
    changed["spec"]["selector"] = {"matchLabels": {}}
    assert updated(old, changed, ctx) == [
        'spec.selector: Invalid value: {"matchLabels":{}}: field is immutable'
    ]


def test_a_webhook_configuration_must_say_what_it_speaks() -> None:
    ctx = context("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
    obj = named(webhooks=[{"name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1:1/x"}}])
    assert created(obj, ctx)[1] == [
        "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
    ]


def test_a_volume_claim_waits_for_its_volume() -> None:
    ctx = context("v1", "PersistentVolumeClaim")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    obj, problems = created(named(spec=spec), ctx)
    assert (obj["status"], obj["spec"]["volumeMode"], problems) == ({"phase": "Pending"}, "Filesystem", [])
    assert created(named(spec={}), ctx)[1] == [
        "spec.accessModes: Required value",
        "spec.resources[storage]: Required value",
    ]


def test_a_role_binding_keeps_its_role() -> None:
    ctx = context("rbac.authorization.k8s.io/v1", "RoleBinding")
    old, problems = created(
        named(roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "ann"}]), ctx
    )
    assert (problems, old["subjects"][0]["apiGroup"]) == ([], "rbac.authorization.k8s.io")
    (problem,) = updated(old, {**old, "roleRef": {"kind": "Role", "name": "other"}}, ctx)
    assert problem.endswith("cannot change roleRef")


def test_immutable_data_stays() -> None:
    ctx = context("v1", "ConfigMap")
    old, _ = created(named(data={"a": "1"}, immutable=True), ctx)
    assert updated(old, {**old, "data": {"a": "2"}}, ctx) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]
