"""The operator's share of the API server (API Priority and Fairness): behind whom its requests wait. Pure.

Without this the operator shares a priority level with all other service accounts, schedulers of third parties
among them, and a set of thousands of pods lets their requests wait.
"""

from typing import Final

from grove.cli.manifests.access import OPERATOR
from grove.cli.manifests.values import SELECTOR, Values
from grove.meta import Manifest

FLOW: Final = OPERATOR
LEASE_FLOW: Final = f"{OPERATOR}-lease"
_API: Final = "flowcontrol.apiserver.k8s.io/v1"
#: Ahead of Kubernetes' own schema for all service accounts (9000), behind those for its components.
_PRECEDENCE: Final = 8500
#: A level that every API server has by itself.
_ELECTIONS: Final = "leader-election"


def desired_flow_control(values: Values, namespace: str) -> list[Manifest]:
    """A level of its own for all that the operator asks, but for its lease, which must not wait behind it."""
    requests: Manifest = {"namespaces": ["*"], "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    leases: Manifest = {
        "namespaces": [values.configuration.leader_election.resource_namespace or namespace],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update", "patch"],
    }
    everything: Manifest = {
        "resourceRules": [{**requests, "clusterScope": True}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    return [
        _level(values.flow_control.shares),
        _schema(LEASE_FLOW, _PRECEDENCE - 1, _ELECTIONS, {"resourceRules": [leases]}, namespace),
        _schema(FLOW, _PRECEDENCE, FLOW, everything, namespace),
    ]


def _level(shares: int) -> Manifest:
    return {
        "apiVersion": _API,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": FLOW, "labels": dict(SELECTOR)},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": shares,
                # What the operator does not use, others may; it takes nothing of theirs.
                "lendablePercent": 50,
                "borrowingLimitPercent": 0,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50},
                },
            },
        },
    }


def _schema(name: str, precedence: int, level: str, rules: Manifest, namespace: str) -> Manifest:
    account = {"kind": "ServiceAccount", "serviceAccount": {"name": OPERATOR, "namespace": namespace}}
    return {
        "apiVersion": _API,
        "kind": "FlowSchema",
        "metadata": {"name": name, "labels": dict(SELECTOR)},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level},
            # Among the operator's requests those of one namespace do not wait behind those of another.
            "distinguisherMethod": {"type": "ByNamespace"},
            "rules": [{"subjects": [account], **rules}],
        },
    }
