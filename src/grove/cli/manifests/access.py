"""Who may do what: the operator's account and roles, and the roles of the people who use Grove. Pure."""

from collections.abc import Sequence
from typing import Final

from grove.api import kinds
from grove.api.labels import MANAGER
from grove.cli.manifests.rules import blocks, makes_certificate, rules_for
from grove.cli.manifests.values import SELECTOR, Values
from grove.extensions import registry_for
from grove.meta import Manifest

OPERATOR: Final = MANAGER
#: Names of the Go operator's chart.
CLUSTER_ROLE: Final = "grove:system:grove-operator"
LEASE_ROLE: Final = "grove:system:grove-operator-lease"
CERTIFICATE_ROLE: Final = "grove:system:grove-operator-certificate"
_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "update", "patch", "delete", "deletecollection")


def desired_access(values: Values, namespace: str) -> list[Manifest]:
    """The operator's account with its roles: everywhere, for its lease, and for its certificate."""
    configuration = values.configuration
    enabled = [each.name for each in registry_for(configuration.scheduler).enabled]
    everywhere = [*rules_for(configuration, enabled), *values.rbac.extra_rules]
    found = [
        _account(namespace),
        _role("ClusterRole", CLUSTER_ROLE, everywhere),
        _binding("ClusterRole", CLUSTER_ROLE, namespace),
    ]
    election = configuration.leader_election
    parts = blocks(configuration.server.webhooks.secret_name, election.resource_name)
    if election.enabled:
        where = election.resource_namespace or namespace
        rules = [each.manifest() for each in parts.lease]
        found += [
            _role("Role", LEASE_ROLE, rules, where),
            _binding("Role", LEASE_ROLE, namespace, where),
        ]
    if makes_certificate(configuration) and parts.certificates:
        rules = [each.manifest() for each in parts.certificates]
        found += [
            _role("Role", CERTIFICATE_ROLE, rules, namespace),
            _binding("Role", CERTIFICATE_ROLE, namespace, namespace),
        ]
    return found


def desired_user_roles() -> list[Manifest]:
    """What people may do with Grove's kinds, added to the roles view, edit and admin of the cluster."""
    read = [
        _rule(kinds.GANGS.gvk.group, ("podgangs", "podgangs/status"), _READ),
        _rule(
            kinds.CLIQUESETS.gvk.group,
            [
                f"{each.plural}{part}"
                for each in (kinds.CLIQUESETS, kinds.CLIQUES, kinds.SCALING_GROUPS)
                for part in ("", "/status", "/scale")
            ],
            _READ,
        ),
        _rule(kinds.TOPOLOGY_BINDINGS.gvk.group, (kinds.TOPOLOGY_BINDINGS.plural,), _READ),
    ]
    write = [
        _rule(kinds.CLIQUESETS.gvk.group, (kinds.CLIQUESETS.plural,), _WRITE),
        # What Grove makes of sets is scaled by people and by autoscalers, and otherwise left alone.
        _rule(
            kinds.CLIQUESETS.gvk.group,
            [f"{each.plural}/scale" for each in (kinds.CLIQUESETS, kinds.CLIQUES, kinds.SCALING_GROUPS)],
            ("update", "patch"),
        ),
        # Gangs without a set.
        _rule(kinds.GANGS.gvk.group, (kinds.GANGS.plural,), _WRITE),
    ]
    return [
        _aggregated("grove-view", ("view", "edit", "admin"), read),
        _aggregated("grove-edit", ("edit", "admin"), write),
    ]


def _account(namespace: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": OPERATOR, "namespace": namespace, "labels": dict(SELECTOR)},
        # The Deployment mounts a token of its own, which expires.
        "automountServiceAccountToken": False,
    }


def _role(kind: str, name: str, rules: Sequence[Manifest], namespace: str = "") -> Manifest:
    metadata: Manifest = {"name": name, "labels": dict(SELECTOR)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def _binding(kind: str, name: str, account_namespace: str, namespace: str = "") -> Manifest:
    metadata: Manifest = {"name": name, "labels": dict(SELECTOR)}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": account_namespace}],
    }


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Manifest:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _aggregated(name: str, to: Sequence[str], rules: Sequence[Manifest]) -> Manifest:
    found = _role("ClusterRole", name, rules)
    found["metadata"]["labels"] |= {f"{_RBAC}/aggregate-to-{each}": "true" for each in to}
    return found
