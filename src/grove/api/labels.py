"""Every label, annotation, gate and finalizer key that Grove reads or writes, in one table.

Keys that only one scheduler reads stand in its backend. Values that clients of the Go operator rely on are
kept to the letter.
"""

from collections.abc import Mapping
from typing import Final

# Labels -------------------------------------------------------------------------------------------
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "app.kubernetes.io/part-of"
NAME: Final = "app.kubernetes.io/name"
COMPONENT: Final = "app.kubernetes.io/component"
POD_CLIQUE: Final = "grove.io/podclique"
POD_GANG: Final = "grove.io/podgang"
BASE_POD_GANG: Final = "grove.io/base-podgang"
SET_REPLICA_INDEX: Final = "grove.io/podcliqueset-replica-index"
SCALING_GROUP: Final = "grove.io/podcliquescalinggroup"
SCALING_GROUP_REPLICA_INDEX: Final = "grove.io/podcliquescalinggroup-replica-index"
POD_INDEX: Final = "grove.io/podclique-pod-index"
POD_TEMPLATE_HASH: Final = "grove.io/pod-template-hash"
#: On pods of podgroups that share a topology constraint, where a scheduler must see them as one group.
TOPOLOGY_GROUP: Final = "scheduler.grove.io/topology-group"
#: Which backend acts on a gang. The same key is the annotation by which a user chooses one.
SCHEDULER_BACKEND: Final = "grove.io/scheduler-backend"
#: The Go operator's label for the same purpose; written beside ours so that its dashboards keep working.
SCHEDULER_NAME: Final = "grove.io/scheduler-name"

MANAGER: Final = "grove-operator"
#: Selects what Grove made.
OURS: Final = f"{MANAGED_BY}={MANAGER}"

#: The common labels that Grove writes on everything it makes.
STANDARD: Final = frozenset({MANAGED_BY, PART_OF, NAME, COMPONENT})

# Values of COMPONENT ------------------------------------------------------------------------------
COMPONENT_SERVICE: Final = "pcs-headless-service"
COMPONENT_CLIQUE: Final = "pcs-podclique"
COMPONENT_GROUP_CLIQUE: Final = "pcsg-podclique"
COMPONENT_SCALING_GROUP: Final = "pcs-podcliquescalinggroup"
COMPONENT_GANG: Final = "podgang"
COMPONENT_AUTOSCALER: Final = "pcs-hpa"
COMPONENT_POD_ROLE: Final = "pod-role"
COMPONENT_POD_ROLE_BINDING: Final = "pod-role-binding"
COMPONENT_CLAIM: Final = "resource-claim"
COMPONENT_COMPUTE_DOMAIN: Final = "pcs-computedomain"
COMPONENT_TEMPLATE_REVISION: Final = "pcs-template-revision"
COMPONENT_DISRUPTION_BUDGET: Final = "pcs-disruption-budget"

# Annotations --------------------------------------------------------------------------------------
RECONCILE_TRIGGER: Final = "grove.io/reconcile-trigger"
TOPOLOGY_NAME: Final = "grove.io/topology-name"
#: On a gang: the topology object of its scheduler, where the binding references one that others manage.
SCHEDULER_TOPOLOGY: Final = "grove.io/scheduler-topology"
#: On a scaled gang: the node labels that its set requires or prefers all pods of the replica to share.
REPLICA_REQUIRED: Final = "grove.io/replica-pack-required"
REPLICA_PREFERRED: Final = "grove.io/replica-pack-preferred"
#: On a gang: a process of its own (grove backend run) acts on it, and the operator does not.
EXTERNAL_BACKEND: Final = "grove.io/external-backend"
#: On a gang: how many times it was restarted since it was created.
RESTARTS: Final = "grove.io/restarts"
#: On a gang: the hash of the set's pod templates from which its present start was made.
GENERATION_HASH: Final = "grove.io/generation-hash"
#: On a gang, scaling group or clique: the hash of the set's pod templates that it follows now; while an
#: update goes on, some follow an earlier one.
TEMPLATE_REVISION: Final = "grove.io/template-revision"
#: On a set: "true" keeps an update from taking anything down.
UPDATE_PAUSED: Final = "grove.io/update-paused"
#: On the pod templates of a set: changed to restart all pods with an update.
RESTARTED_AT: Final = "grove.io/restarted-at"
#: On a gang: fields of the set that were edited since it was placed, and that it takes with its next start.
EDIT_PENDING: Final = "grove.io/edit-pending"
#: On a pod: the revision of its gang that it was made for; see `api.revision`.
GANG_REVISION: Final = "grove.io/gang-revision"
#: On a pod: how many pods in its place have failed in a row before it.
FAILURES: Final = "grove.io/failures"
#: On a clique: the replicas of its template when they were last applied to it.
TEMPLATE_REPLICAS: Final = "grove.io/template-replicas"
#: On a clique: labels of another operator or release that its pods had, by what its template meant then.
TEMPLATE_LABELS: Final = "grove.io/template-labels"
#: On a clique whose template leaves minAvailable out: what was decided when the first clique of the role was
#: made.
DECIDED_MINIMUM: Final = "grove.io/decided-minimum"
#: On a scheduler's object that was deleted by hand: its pods are being shown to the scheduler again.
RECREATED: Final = "grove.io/recreated"
#: On such a pod: the UID of the object by which the scheduler has heard of it.
RESYNCED_FOR: Final = "grove.io/resynced-for"
#: On a gang or clique: which of its labels and annotations it has from its set; others' are left alone.
MIRRORED: Final = "grove.io/mirrored"
#: On a set, scaling group or role: which roles share an NVLink domain. Also the label of the ComputeDomain.
MNNVL_GROUP: Final = "grove.io/mnnvl-group"
#: On a set: that evictions must leave its gangs something, and what.
DISRUPTION_BUDGET: Final = "grove.io/disruption-budget"
#: The one value of it: of every clique as many ready pods as its gang needs.
BUDGET_OF_MINIMA: Final = "MinAvailable"
DISABLE_PROTECTION: Final = "grove.io/disable-managed-resource-protection"

# Finalizers ---------------------------------------------------------------------------------------
# The Go operator's: taken off whatever has one, never put on anything (decisions 0004 and 0022).
CLIQUESET_FINALIZER: Final = "grove.io/podcliqueset.grove.io"
CLIQUE_FINALIZER: Final = "grove.io/podclique.grove.io"
SCALING_GROUP_FINALIZER: Final = "grove.io/podcliquescalinggroup.grove.io"
COMPUTE_DOMAIN_FINALIZER: Final = "grove.io/computedomain-finalizer"

#: All of them, on whatever kind: nothing of ours has a finalizer.
FINALIZERS: Final = frozenset(
    {CLIQUESET_FINALIZER, CLIQUE_FINALIZER, SCALING_GROUP_FINALIZER, COMPUTE_DOMAIN_FINALIZER}
)

# Scheduling gates ---------------------------------------------------------------------------------
#: The Go operator's gate: recognised on pods taken over from it, never put on new ones.
LEGACY_GATE: Final = "grove.io/podgang-pending-creation"

#: Keys with this prefix are Grove's own and are not mirrored from a set onto its gangs.
GROVE_PREFIX: Final = "grove.io/"


def owned_by(cliqueset: str) -> dict[str, str]:
    """The two labels that everything belonging to a set carries."""
    return {MANAGED_BY: MANAGER, PART_OF: cliqueset}


def number(labels: Mapping[str, str], key: str) -> int | None:
    """The number that a label has; None where it has none, because somebody took it away or edited it."""
    text = labels.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None


def selector(labels: dict[str, str]) -> str:
    """An equality selector in the sorted form that `status` fields publish."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
