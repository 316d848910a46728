"""The built-in kinds of Kubernetes that this server serves, one row each.

A table: names, scope, subresources. What the kinds mean is in `kinds/`.
"""

from __future__ import annotations

from collections.abc import Iterator

from grove.embedded.resource_type import ALL_VERBS, ResourceType

MINORS = ("1.35", "1.36", "1.37")
CREATE_ONLY = ("create",)
STATUS = "status"
SCALE = "status scale"

SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "exec": ("", "v1", "PodExecOptions"),
    "attach": ("", "v1", "PodAttachOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
}
SUBRESOURCE_VERBS = {
    "scale": ("get", "patch", "update"),
    "status": ("get", "patch", "update"),
    "binding": CREATE_ONLY,
    "eviction": CREATE_ONLY,
    "token": CREATE_ONLY,
    "log": ("get",),
    "ephemeralcontainers": ("get", "patch", "update"),
    "resize": ("get", "patch", "update"),
    "finalize": ("update",),
    "approval": ("get", "patch", "update"),
    "exec": ("create", "get"),
    "attach": ("create", "get"),
    "portforward": ("create", "get"),
}


def _kind(
    api_version: str,
    kind: str,
    plural: str,
    *,
    short: str = "",
    cluster: bool = False,
    sub: str = "",
    categories: str = "",
    generation: bool = False,
    verbs: tuple[str, ...] = ALL_VERBS,
    storage: tuple[str, str] | None = None,
    stored_as: str = "",
) -> ResourceType:
    group, _, version = api_version.rpartition("/")
    return ResourceType(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=not cluster,
        short_names=tuple(short.split()),
        categories=tuple(categories.split()),
        subresources=frozenset(sub.split()),
        verbs=verbs,
        list_kind=f"{kind}List",
        has_generation=generation,
        storage=storage,
        stored_as=stored_as,
    )


POD_PARTS = "status binding eviction log ephemeralcontainers resize exec attach portforward"

CORE = (
    _kind("v1", "Binding", "bindings", verbs=CREATE_ONLY),
    _kind("v1", "ConfigMap", "configmaps", short="cm"),
    _kind("v1", "Endpoints", "endpoints", short="ep"),
    _kind("v1", "Event", "events", short="ev"),
    _kind("v1", "LimitRange", "limitranges", short="limits"),
    _kind("v1", "Namespace", "namespaces", short="ns", cluster=True, sub="status finalize"),
    _kind("v1", "Node", "nodes", short="no", cluster=True, sub=STATUS),
    _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", short="pvc", sub=STATUS),
    _kind("v1", "PersistentVolume", "persistentvolumes", short="pv", cluster=True, sub=STATUS),
    _kind("v1", "Pod", "pods", short="po", sub=POD_PARTS, categories="all", generation=True),
    _kind("v1", "PodTemplate", "podtemplates", generation=True),
    _kind(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        short="rc",
        sub=SCALE,
        categories="all",
        generation=True,
    ),
    _kind("v1", "ResourceQuota", "resourcequotas", short="quota", sub=STATUS),
    _kind("v1", "Secret", "secrets"),
    _kind("v1", "ServiceAccount", "serviceaccounts", short="sa", sub="token"),
    _kind("v1", "Service", "services", short="svc", sub=STATUS, categories="all"),
)

WORKLOADS = (
    _kind("apps/v1", "ControllerRevision", "controllerrevisions"),
    _kind("apps/v1", "DaemonSet", "daemonsets", short="ds", sub=STATUS, categories="all", generation=True),
    _kind(
        "apps/v1", "Deployment", "deployments", short="deploy", sub=SCALE, categories="all", generation=True
    ),
    _kind("apps/v1", "ReplicaSet", "replicasets", short="rs", sub=SCALE, categories="all", generation=True),
    _kind(
        "apps/v1", "StatefulSet", "statefulsets", short="sts", sub=SCALE, categories="all", generation=True
    ),
    _kind("batch/v1", "CronJob", "cronjobs", short="cj", sub=STATUS, categories="all", generation=True),
    _kind("batch/v1", "Job", "jobs", sub=STATUS, categories="all", generation=True),
    _kind(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        short="hpa",
        sub=STATUS,
        categories="all",
    ),
    _kind(
        "policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", short="pdb", sub=STATUS, generation=True
    ),
)

INFRASTRUCTURE = (
    _kind("coordination.k8s.io/v1", "Lease", "leases"),
    _kind("events.k8s.io/v1", "Event", "events", short="ev", storage=("", "events"), stored_as="v1"),
    _kind(
        "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", short="pc", cluster=True, generation=True
    ),
    _kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", cluster=True),
    _kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", generation=True),
    _kind("networking.k8s.io/v1", "Ingress", "ingresses", short="ing", sub=STATUS, generation=True),
    _kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", cluster=True, generation=True),
    _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", short="netpol", generation=True),
    _kind("storage.k8s.io/v1", "StorageClass", "storageclasses", short="sc", cluster=True),
    _kind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", cluster=True, sub=STATUS),
    _kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities"),
    _kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", cluster=True),
    _kind("storage.k8s.io/v1", "CSINode", "csinodes", cluster=True),
    _kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", sub=STATUS),
    _kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    _kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", cluster=True, generation=True),
    _kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", cluster=True, generation=True),
)

_REGISTRATION = "admissionregistration.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"
_FLOW = "flowcontrol.apiserver.k8s.io/v1"

POLICY = (
    _kind(_RBAC, "ClusterRole", "clusterroles", cluster=True),
    _kind(_RBAC, "ClusterRoleBinding", "clusterrolebindings", cluster=True),
    _kind(_RBAC, "Role", "roles"),
    _kind(_RBAC, "RoleBinding", "rolebindings"),
    *(
        _kind(_REGISTRATION, kind, plural, cluster=True, generation=True, sub=sub)
        for kind, plural, sub in (
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", ""),
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", ""),
            ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", STATUS),
            ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", ""),
            ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", ""),
            ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", ""),
        )
    ),
    _kind(_FLOW, "FlowSchema", "flowschemas", cluster=True, sub=STATUS, generation=True),
    _kind(
        _FLOW,
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        cluster=True,
        sub=STATUS,
        generation=True,
    ),
    _kind(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        short="crd crds",
        cluster=True,
        sub=STATUS,
        categories="api-extensions",
        generation=True,
    ),
)

_AUTHORIZATION = "authorization.k8s.io/v1"
_AUTHENTICATION = "authentication.k8s.io/v1"

REVIEWS = (
    *(
        _kind(_AUTHORIZATION, kind, f"{kind.lower()}s", cluster=True, verbs=CREATE_ONLY)
        for kind in ("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview")
    ),
    _kind(_AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=CREATE_ONLY),
    _kind(_AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", cluster=True, verbs=CREATE_ONLY),
    _kind(_AUTHENTICATION, "TokenReview", "tokenreviews", cluster=True, verbs=CREATE_ONLY),
)


# The gang API changes shape between minors; which kinds each version has: name -> has status.
_WORKLOAD = {"Workload": False}
_WITH_GROUPS = {"Workload": False, "PodGroup": True}
_WITH_COMPOSITES = {"Workload": False, "PodGroup": True, "CompositePodGroup": True}
GANG_APIS: dict[str, dict[str, dict[str, bool]]] = {
    "1.35": {"v1alpha1": _WORKLOAD},
    "1.36": {"v1alpha2": _WITH_GROUPS},
    "1.37": {"v1beta1": _WITH_GROUPS, "v1alpha3": _WITH_COMPOSITES},
}


#: A kind is served while its feature gate is on.
_GANG_GATES = {
    "Workload": "GenericWorkload",
    "PodGroup": "GenericWorkload",
    "CompositePodGroup": "CompositePodGroup",
}


def _gang_types(minor: str, features: frozenset[str] | None) -> Iterator[ResourceType]:
    home: dict[str, str] = {}
    for version, kinds in GANG_APIS[minor].items():
        for kind, has_status in kinds.items():
            if features is not None and _GANG_GATES[kind] not in features:
                continue
            stored_as = home.get(kind, "")
            home.setdefault(kind, f"scheduling.k8s.io/{version}")
            yield _kind(
                f"scheduling.k8s.io/{version}",
                kind,
                f"{kind.lower()}s",
                sub=STATUS if has_status else "",
                generation=kind != "Workload",
                stored_as=stored_as,
            )


def builtin_types(minor: str, features: frozenset[str] | None = None) -> Iterator[ResourceType]:
    """Every built-in kind of one Kubernetes minor; of the gang API only what the gates switch on."""
    if minor not in MINORS:
        raise ValueError(f"Kubernetes {minor!r} is not known to the embedded cluster; choose one of {MINORS}")
    for rows in (CORE, WORKLOADS, INFRASTRUCTURE, POLICY, REVIEWS):
        yield from rows
    yield from _gang_types(minor, features)
