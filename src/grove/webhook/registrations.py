"""How an API server is told of the webhooks: the configuration objects, as data. Pure.

The one source of them: the chart, the embedded cluster and whoever injects CA bundles agree with it. Names
and paths are those of the Go operator; `grove-children-validating-webhook` is ours. Nothing but Grove's own
kinds is asked about, save by the authorizer, which sees only what carries Grove's label.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grove.api import kinds, labels
from grove.meta import Manifest, Resource

DEFAULT_CLIQUESET: Final = "/webhooks/default-podcliqueset"
VALIDATE_CLIQUESET: Final = "/webhooks/validate-podcliqueset"
VALIDATE_TOPOLOGY: Final = "/webhooks/validate-clustertopology"
VALIDATE_CLIQUE: Final = "/webhooks/validate-podclique"
VALIDATE_SCALING_GROUP: Final = "/webhooks/validate-podcliquescalinggroup"
VALIDATE_GANG: Final = "/webhooks/validate-podgang"
AUTHORIZE: Final = "/webhooks/authorizer-webhook"

DEFAULTING_NAME: Final = "podcliqueset-defaulting-webhook"
CLIQUESET_NAME: Final = "podcliqueset-validating-webhook"
TOPOLOGY_NAME: Final = "clustertopology-validating-webhook"
CHILDREN_NAME: Final = "grove-children-validating-webhook"
AUTHORIZER_NAME: Final = "authorizer-webhook"

#: The API server gives up after this, and refuses the write.
TIMEOUT_SECONDS: Final = 10

_WRITES: Final = ("CREATE", "UPDATE")
_ALL: Final = ("CREATE", "UPDATE", "DELETE")
_LATER: Final = ("UPDATE", "DELETE")

#: Parts of Kubernetes that the authorizer never stops, also while it cannot be asked: without them no set,
#: and no namespace that has one, could go.
ALWAYS_ALLOWED: Final = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
    "system:serviceaccount:kube-system:namespace-controller",
)


@dataclass(frozen=True, slots=True)
class ServedAt:
    """Where an API server finds the webhooks: behind a Service, or at a URL outside the cluster."""

    namespace: str
    service: str = labels.MANAGER
    port: int = 9443
    #: For example https://127.0.0.1:9443; the Service does not matter then.
    url: str = ""
    #: In PEM; None where somebody else writes it into the objects.
    ca_bundle: bytes | None = None


def desired_webhook_configurations(
    at: ServedAt, *, operator: str = "", authorizer: bool = False
) -> list[Manifest]:
    """Every configuration that should exist.

    `operator` is the user name under which the operator writes: it is not asked about its own writes. Leave
    it blank where people share that user.
    """
    found = [
        _configuration("Mutating", DEFAULTING_NAME, [_defaulting(at)]),
        _configuration("Validating", CLIQUESET_NAME, [_validating_cliquesets(at)]),
        _configuration("Validating", TOPOLOGY_NAME, [_validating_topologies(at)]),
        _configuration("Validating", CHILDREN_NAME, _validating_children(at, operator)),
    ]
    if authorizer:
        found.append(_configuration("Validating", AUTHORIZER_NAME, [_authorizing(at, operator)]))
    return found


def _configuration(kind: str, name: str, webhooks: Sequence[Manifest]) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def _defaulting(at: ServedAt) -> Manifest:
    return {
        **_webhook(at, "pcs.defaulting.webhooks.grove.io", DEFAULT_CLIQUESET),
        "rules": [_rule(_WRITES, kinds.CLIQUESETS)],
        "matchConditions": [_stays(), _changes("spec")],
        "reinvocationPolicy": "Never",
    }


def _validating_cliquesets(at: ServedAt) -> Manifest:
    return {
        **_webhook(at, "pcs.validating.webhooks.grove.io", VALIDATE_CLIQUESET),
        "rules": [
            _rule(_WRITES, kinds.CLIQUESETS),
            # Without it `kubectl scale` would ask for what `kubectl apply` is refused.
            _rule(("UPDATE",), kinds.CLIQUESETS, "scale"),
        ],
        "matchConditions": [
            _stays(),
            _changes("spec", "metadata.labels", "metadata.annotations"),
            _scales_up(),
        ],
    }


def _validating_topologies(at: ServedAt) -> Manifest:
    return {
        **_webhook(at, "clustertopology.validating.webhooks.grove.io", VALIDATE_TOPOLOGY),
        "rules": [_rule(_WRITES, kinds.TOPOLOGY_BINDINGS)],
        "matchConditions": [_stays(), _changes("spec")],
    }


def _validating_children(at: ServedAt, operator: str) -> list[Manifest]:
    served = (
        (kinds.CLIQUES, VALIDATE_CLIQUE),
        (kinds.SCALING_GROUPS, VALIDATE_SCALING_GROUP),
        (kinds.GANGS, VALIDATE_GANG),
    )
    return [
        {
            **_webhook(at, f"{resource.kind.lower()}.validating.webhooks.grove.io", path),
            "rules": [_rule(_WRITES, resource)],
            "matchConditions": [_stays(), _changes("spec"), *_by_others([operator])],
        }
        for resource, path in served
    ]


def _authorizing(at: ServedAt, operator: str) -> Manifest:
    elsewhere = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        # The certificate of this very webhook is a Secret there.
        "values": sorted({"kube-system", at.namespace}),
    }
    return {
        **_webhook(at, "authorizer.webhooks.grove.io", AUTHORIZE),
        "namespaceSelector": {"matchExpressions": [elsewhere]},
        "objectSelector": {"matchLabels": {labels.MANAGED_BY: labels.MANAGER}},
        "rules": [
            _rule(_LATER, kinds.SERVICES, plurals=("secrets", "serviceaccounts", "services")),
            _rule(("UPDATE",), kinds.PODS),
            _rule(_LATER, kinds.ROLES, plurals=("roles", "rolebindings")),
            {**_rule(_LATER, kinds.AUTOSCALERS), "apiVersions": ["v1", "v2"]},
            _rule(_ALL, kinds.CLIQUES, plurals=("podcliques", "podcliquescalinggroups")),
            _rule(_ALL, kinds.GANGS),
        ],
        "matchConditions": _by_others([operator, *ALWAYS_ALLOWED]),
    }


def _webhook(at: ServedAt, name: str, path: str) -> Manifest:
    client: Manifest
    if at.url:
        client = {"url": at.url.rstrip("/") + path}
    else:
        client = {"service": {"namespace": at.namespace, "name": at.service, "port": at.port, "path": path}}
    if at.ca_bundle is not None:
        client["caBundle"] = base64.b64encode(at.ca_bundle).decode()
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "namespaceSelector": {},
        "objectSelector": {},
    }


def _rule(
    operations: Sequence[str], resource: Resource, subresource: str = "", *, plurals: Sequence[str] = ()
) -> Manifest:
    names = plurals or (resource.plural,)
    return {
        "apiGroups": [resource.gvk.group],
        "apiVersions": [resource.gvk.version],
        "operations": list(operations),
        "resources": [f"{name}/{subresource}" if subresource else name for name in names],
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }


def _condition(name: str, expression: str) -> Manifest:
    return {"name": name, "expression": expression}


def _differs(path: str) -> str:
    """Whether an update changes a field, which may be absent before or after."""
    new, old = (f"(has({at}.{path}) ? {at}.{path} : {{}})" for at in ("object", "oldObject"))
    return f"{new} != {old}"


def _replicas(at: str) -> str:
    """The replicas of a Scale, which leaves 0 out."""
    return f"(has({at}.spec.replicas) ? {at}.spec.replicas : 0)"


def _stays() -> Manifest:
    """What is being deleted only has to lose its finalizers, whether webhooks answer or not."""
    return _condition("is-not-being-deleted", "!has(object.metadata.deletionTimestamp)")


def _changes(*paths: str) -> Manifest:
    """Of an update that changes nothing which is looked at, nobody is asked."""
    changed = " || ".join(map(_differs, paths))
    return _condition("changes-what-is-looked-at", f"request.operation != 'UPDATE' || {changed}")


def _scales_up() -> Manifest:
    """To have less is always possible."""
    return _condition(
        "is-not-scaled-down",
        "!has(request.subResource) || request.subResource != 'scale' || "
        f"{_replicas('object')} > {_replicas('oldObject')}",
    )


def _by_others(users: Sequence[str]) -> list[Manifest]:
    if not any(users):
        return []
    listed = ", ".join(repr(user) for user in users if user)
    return [_condition("is-written-by-others", f"!(request.userInfo.username in [{listed}])")]
