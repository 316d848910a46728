"""Every condition that Grove writes and every reason it gives: one table, and a constant for each name.

Controllers and plans take both from here. Backends spell the reasons of their readings themselves; a test
compares them with the table. Types and reasons of the Go operator are kept to the letter. Further reasons
that a scheduler gives are passed on and not listed.
"""

from typing import Final, NamedTuple

# Types: every kind --------------------------------------------------------------------------------
READY: Final = "Ready"
AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
STALLED: Final = "Stalled"

# Types: PodGang -----------------------------------------------------------------------------------
INITIALIZED: Final = "Initialized"
SCHEDULED: Final = "Scheduled"
UNHEALTHY: Final = "Unhealthy"
DISRUPTION_TARGET: Final = "DisruptionTarget"
OWNERSHIP_CONFLICT: Final = "OwnershipConflict"
GANG_GUARANTEE: Final = "GangGuarantee"
TRANSLATION_LOSS: Final = "TranslationLoss"
BACKEND_CHANGE_PENDING: Final = "BackendChangePending"
STRAY_PODS: Final = "StrayPods"
STUCK_PODS: Final = "StuckPods"
PODS_ABOVE_MINIMUM_PENDING: Final = "PodsAboveMinimumPending"

# Types: PodCliqueSet ------------------------------------------------------------------------------
#: On sets and topology bindings.
ACCEPTED: Final = "Accepted"
TOPOLOGY_LEVELS_UNAVAILABLE: Final = "TopologyLevelsUnavailable"
EDIT_PENDING: Final = "EditPending"
GANG_TERMINATION_PENDING: Final = "GangTerminationPending"
#: Also the reason of MinAvailableBreached while pods are replaced, and of a set that is not ready for that.
UPDATE_IN_PROGRESS: Final = "UpdateInProgress"
#: On sets and gangs.
DEGRADED: Final = "Degraded"

# Types: PodClique and PodCliqueScalingGroup -------------------------------------------------------
CLIQUE_SCHEDULED: Final = "PodCliqueScheduled"
MIN_AVAILABLE_BREACHED: Final = "MinAvailableBreached"
MIN_AVAILABLE_REACHED: Final = "MinAvailableReached"
GANG_TERMINATION_IN_PROGRESS: Final = "GangTerminationInProgress"

# Types: ClusterTopologyBinding --------------------------------------------------------------------
SCHEDULER_TOPOLOGY_DRIFT: Final = "SchedulerTopologyDrift"

# Reasons ------------------------------------------------------------------------------------------
IN_PROGRESS: Final = "InProgress"
COMPLETE: Final = "Complete"
PODS_CREATION_PENDING: Final = "PodGangPodsCreationPending"
PODS_CREATED: Final = "PodGangPodsCreated"
GANG_PLACED: Final = "Scheduled"
WAITING_FOR_PODS: Final = "WaitingForPods"
SCHEDULING_GATED: Final = "SchedulingGated"
WAITING_FOR_SCHEDULER: Final = "WaitingForScheduler"
SCHEDULER_ERROR: Final = "SchedulerError"
UNSCHEDULABLE: Final = "Unschedulable"
PRECONDITION_MISSING: Final = "PreconditionMissing"
SYNC_FAILED: Final = "SyncFailed"
STEPPED_BACK: Final = "SteppedBack"
WAITING_FOR_BASE: Final = "WaitingForBaseGang"
POD_CREATE_FAILED: Final = "PodCreateFailed"
SCALED_TO_ZERO: Final = "ScaledToZero"
NO_OWNER: Final = "NoOwner"
STUCK_TERMINATING: Final = "StuckTerminating"
NAME_TAKEN: Final = "NameTaken"
BEING_DELETED: Final = "BeingDeleted"
CLAIM_TEMPLATE_NOT_FOUND: Final = "ResourceClaimTemplateNotFound"
SCALED_BELOW_MINIMUM: Final = "ScaledBelowMinimum"
ALL_PODS_READY: Final = "AllPodsReady"
PODS_NOT_READY: Final = "PodsNotReady"
PODS_SUCCEEDED: Final = "PodsSucceeded"
PODS_FAILING: Final = "PodsFailing"
PREEMPTED: Final = "PreemptedByScheduler"
NODE_NOT_READY: Final = "NodeNotReady"
FIELD_OWNED_BY_OTHER: Final = "FieldOwnedByOther"
NO_GANG_API: Final = "NoGangAPI"
PODS_OUTSIDE_GANG: Final = "PodsOutsideGang"
CANNOT_EXPRESS: Final = "CannotExpress"
PODS_STILL_PLACED: Final = "PodsStillPlaced"

# Reasons that only one or two backends give
QUEUED: Final = "Queued"
QUEUE_DOES_NOT_EXIST: Final = "QueueDoesNotExist"
SCHEDULING_SKIPPED: Final = "SchedulingSkipped"
OVER_LIMIT: Final = "OverLimit"
OVER_QUOTA: Final = "NonPreemptibleOverQuota"
SHARE_USED_UP: Final = "ShareUsedUp"
RESERVATION_TIMEOUT: Final = "ResourceReservationTimeout"
APPLICATION_REJECTED: Final = "ApplicationRejected"

VALID: Final = "Valid"
INVALID: Final = "Invalid"
BACKEND_NOT_ENABLED: Final = "BackendNotEnabled"
UNSUPPORTED: Final = "Unsupported"
LIMIT_EXCEEDED: Final = "LimitExceeded"
ALL_REPLICAS_AVAILABLE: Final = "AllReplicasAvailable"
REPLICAS_UNAVAILABLE: Final = "ReplicasUnavailable"
ALL_GANGS_READY: Final = "AllGangsReady"
GANGS_NOT_READY: Final = "GangsNotReady"
TOPOLOGY_LEVELS_AVAILABLE: Final = "AllClusterTopologyLevelsAvailable"
TOPOLOGY_LEVELS_MISSING: Final = "ClusterTopologyLevelsUnavailable"
TOPOLOGY_BINDING_NOT_FOUND: Final = "ClusterTopologyNotFound"
TOPOLOGY_BINDING_INVALID: Final = "ClusterTopologyInvalid"
TOPOLOGY_NAME_MISSING: Final = "TopologyNameMissing"
TOPOLOGY_DISABLED: Final = "TopologyAwareSchedulingDisabled"

SUFFICIENT_SCHEDULED_PODS: Final = "SufficientScheduledPods"
INSUFFICIENT_SCHEDULED_PODS: Final = "InsufficientScheduledPods"
SCHEDULED_BELOW_MIN_AVAILABLE: Final = "ScheduledReplicasBelowMinAvailable"
SUFFICIENT_READY_PODS: Final = "SufficientReadyPods"
INSUFFICIENT_READY_PODS: Final = "InsufficientReadyPods"
SUFFICIENT_GROUP_REPLICAS: Final = "SufficientAvailablePodCliqueScalingGroupReplicas"
INSUFFICIENT_GROUP_REPLICAS: Final = "InsufficientAvailablePodCliqueScalingGroupReplicas"
ROLLING_RECREATE: Final = "RollingRecreate"
UPDATE_PAUSED: Final = "Paused"
GANG_TERMINATION_ACTIVE: Final = "GangTerminationActive"

IN_SYNC: Final = "InSync"
DRIFT: Final = "Drift"
TOPOLOGY_NOT_FOUND: Final = "TopologyNotFound"


class Entry(NamedTuple):
    """One condition: on which kind, what it tells when True, and the reasons Grove gives."""

    kind: str
    type: str
    meaning: str
    reasons: tuple[str, ...]


#: Why something is, or is not, going on with an object of any kind.
_PROGRESS: Final = (IN_PROGRESS, COMPLETE, STALLED)


def _progressing(kind: str) -> Entry:
    meaning = "It is not ready, and Grove, a scheduler or a kubelet is at work on it."
    return Entry(kind, PROGRESSING, meaning, _PROGRESS)


def _stalled(kind: str, *reasons: str) -> Entry:
    meaning = (
        "It cannot go on before somebody changes something; the message says what. Only there while True."
    )
    return Entry(kind, STALLED, meaning, reasons)


TABLE: Final[tuple[Entry, ...]] = (
    Entry(
        "PodGang",
        INITIALIZED,
        "Every pod of the gang existed and was listed in the podgroups; it stays when pods are lost later.",
        (PODS_CREATION_PENDING, PODS_CREATED),
    ),
    Entry(
        "PodGang",
        SCHEDULED,
        "The scheduler has placed the minimum of every podgroup; if not, the message says why.",
        (
            GANG_PLACED,
            WAITING_FOR_PODS,
            SCHEDULING_GATED,
            WAITING_FOR_SCHEDULER,
            UNSCHEDULABLE,
            SCHEDULER_ERROR,
            QUEUED,
            QUEUE_DOES_NOT_EXIST,
            TOPOLOGY_NOT_FOUND,
            SCHEDULING_SKIPPED,
            OVER_LIMIT,
            OVER_QUOTA,
            SHARE_USED_UP,
            RESERVATION_TIMEOUT,
            APPLICATION_REJECTED,
            SCALED_BELOW_MINIMUM,
            SCALED_TO_ZERO,
            POD_CREATE_FAILED,
            STEPPED_BACK,
            WAITING_FOR_BASE,
            PRECONDITION_MISSING,
            SYNC_FAILED,
            BACKEND_NOT_ENABLED,
            UNSUPPORTED,
            OWNERSHIP_CONFLICT,
            BEING_DELETED,
        ),
    ),
    Entry(
        "PodGang",
        READY,
        "Enough pods of every podgroup are ready, or have succeeded while others are ready.",
        (ALL_PODS_READY, PODS_NOT_READY, PODS_SUCCEEDED),
    ),
    Entry(
        "PodGang",
        AVAILABLE,
        "The same as Ready: a gang needs its minimum and nothing more.",
        (ALL_PODS_READY, PODS_NOT_READY, PODS_SUCCEEDED),
    ),
    _progressing("PodGang"),
    _stalled(
        "PodGang",
        SYNC_FAILED,
        UNSUPPORTED,
        PRECONDITION_MISSING,
        BACKEND_NOT_ENABLED,
        BEING_DELETED,
        FIELD_OWNED_BY_OTHER,
        POD_CREATE_FAILED,
    ),
    Entry("PodGang", UNHEALTHY, "A placed gang has lost pods that its minimum needs.", (PODS_FAILING,)),
    Entry(
        "PodGang",
        DISRUPTION_TARGET,
        "Pods of the gang are being taken away, or will be; the message says which, from which node and why.",
        (PREEMPTED, NODE_NOT_READY),
    ),
    Entry(
        "PodGang",
        OWNERSHIP_CONFLICT,
        "Another writer owns a field of the scheduler's object that Grove needs; the message names both.",
        (FIELD_OWNED_BY_OTHER,),
    ),
    Entry(
        "PodGang",
        GANG_GUARANTEE,
        "The scheduler places the gang all or nothing; False where the cluster serves no gang API, and while "
        "pods run that the Go operator made outside of it.",
        (NO_GANG_API, PODS_OUTSIDE_GANG),
    ),
    Entry(
        "PodGang",
        TRANSLATION_LOSS,
        "The scheduler cannot express something that the gang prefers or that Grove asks for it, or only "
        "nearly; the message lists it.",
        (CANNOT_EXPRESS,),
    ),
    Entry(
        "PodGang",
        BACKEND_CHANGE_PENDING,
        "The set asks for another scheduler than placed the gang, which moves once its pods are gone.",
        (PODS_STILL_PLACED,),
    ),
    Entry(
        "PodGang",
        STRAY_PODS,
        "Pods carry the labels of the gang and belong to no clique; they are neither counted nor deleted.",
        (NO_OWNER,),
    ),
    Entry(
        "PodGang",
        STUCK_PODS,
        "Pods should have ended long ago and are still there; they are not counted, and others are in their "
        "places.",
        (STUCK_TERMINATING,),
    ),
    Entry(
        "PodGang",
        PODS_ABOVE_MINIMUM_PENDING,
        "The gang is placed, and the scheduler finds no room for pods above its minimum; the message has "
        "their number and its reason.",
        (UNSCHEDULABLE,),
    ),
    Entry(
        "PodGang",
        DEGRADED,
        "The gang's scheduler objects cannot be kept up to date; running pods keep running.",
        (SYNC_FAILED, UNSUPPORTED, PRECONDITION_MISSING, BACKEND_NOT_ENABLED, BEING_DELETED),
    ),
    Entry(
        "PodCliqueSet",
        EDIT_PENDING,
        "An edit takes effect only when a gang is placed again; the message says how.",
        (PODS_STILL_PLACED,),
    ),
    Entry(
        "PodCliqueSet",
        GANG_TERMINATION_PENDING,
        "Pods that ran are missing or broken; the message says what is recycled, when, and what prevents it.",
        (MIN_AVAILABLE_BREACHED,),
    ),
    Entry(
        "PodCliqueSet",
        UPDATE_IN_PROGRESS,
        "Pods are replaced because a template changed; the message says how far it is and what it waits for. "
        "Only there while True.",
        (ROLLING_RECREATE, UPDATE_PAUSED),
    ),
    Entry(
        "PodCliqueSet",
        ACCEPTED,
        "The set is valid and an enabled scheduler backend can carry it out.",
        (VALID, INVALID, LIMIT_EXCEEDED, BACKEND_NOT_ENABLED, UNSUPPORTED, TOPOLOGY_LEVELS_UNAVAILABLE),
    ),
    Entry(
        "PodCliqueSet",
        AVAILABLE,
        "Every replica has enough ready pods; if not, the message says what is missing.",
        (ALL_REPLICAS_AVAILABLE, REPLICAS_UNAVAILABLE, BEING_DELETED),
    ),
    Entry(
        "PodCliqueSet",
        READY,
        "Every gang of the set is ready, scaled gangs too, and no update goes on; if not, the message says "
        "which gang waits for what, or how far the update is.",
        (
            ALL_GANGS_READY,
            GANGS_NOT_READY,
            PODS_SUCCEEDED,
            UPDATE_IN_PROGRESS,
            BEING_DELETED,
            INVALID,
            LIMIT_EXCEEDED,
            BACKEND_NOT_ENABLED,
            UNSUPPORTED,
            TOPOLOGY_LEVELS_UNAVAILABLE,
        ),
    ),
    _progressing("PodCliqueSet"),
    _stalled(
        "PodCliqueSet",
        INVALID,
        LIMIT_EXCEEDED,
        BACKEND_NOT_ENABLED,
        UNSUPPORTED,
        TOPOLOGY_LEVELS_UNAVAILABLE,
        NAME_TAKEN,
        SYNC_FAILED,
        CLAIM_TEMPLATE_NOT_FOUND,
    ),
    Entry(
        "PodCliqueSet",
        DEGRADED,
        "A child of the set cannot be written or kept up to date; the message says which and why.",
        (NAME_TAKEN, SYNC_FAILED, CLAIM_TEMPLATE_NOT_FOUND),
    ),
    Entry(
        "PodCliqueSet",
        TOPOLOGY_LEVELS_UNAVAILABLE,
        "A topology level that the set asks for is not in its ClusterTopologyBinding.",
        (
            TOPOLOGY_LEVELS_AVAILABLE,
            TOPOLOGY_LEVELS_MISSING,
            TOPOLOGY_BINDING_NOT_FOUND,
            TOPOLOGY_BINDING_INVALID,
            TOPOLOGY_NAME_MISSING,
            TOPOLOGY_DISABLED,
        ),
    ),
    Entry(
        "PodClique",
        CLIQUE_SCHEDULED,
        "At least minAvailable pods are bound to nodes.",
        (SUFFICIENT_SCHEDULED_PODS, INSUFFICIENT_SCHEDULED_PODS),
    ),
    Entry(
        "PodClique",
        MIN_AVAILABLE_BREACHED,
        "Fewer than minAvailable pods are ready or starting; terminationDelay runs if it once had them.",
        (SCHEDULED_BELOW_MIN_AVAILABLE, INSUFFICIENT_READY_PODS, SUFFICIENT_READY_PODS, UPDATE_IN_PROGRESS),
    ),
    Entry(
        "PodClique",
        MIN_AVAILABLE_REACHED,
        "The clique has had minAvailable pods in this start of its gang; before, no breach has it recycled.",
        (SUFFICIENT_READY_PODS,),
    ),
    Entry(
        "PodClique",
        READY,
        "All pods that the clique asks for are ready, or have succeeded while others are ready.",
        (ALL_PODS_READY, PODS_NOT_READY, PODS_SUCCEEDED),
    ),
    Entry(
        "PodClique",
        AVAILABLE,
        "At least minAvailable pods are ready.",
        (SUFFICIENT_READY_PODS, INSUFFICIENT_READY_PODS),
    ),
    _progressing("PodClique"),
    _stalled("PodClique", POD_CREATE_FAILED),
    Entry(
        "PodCliqueScalingGroup",
        MIN_AVAILABLE_BREACHED,
        "Fewer than minAvailable replicas of the group work; terminationDelay runs if it once had them.",
        (INSUFFICIENT_GROUP_REPLICAS, SUFFICIENT_GROUP_REPLICAS, UPDATE_IN_PROGRESS),
    ),
    Entry(
        "PodCliqueScalingGroup",
        GANG_TERMINATION_IN_PROGRESS,
        "Fewer than minAvailable replicas of the group have worked for longer than terminationDelay.",
        (GANG_TERMINATION_ACTIVE,),
    ),
    Entry(
        "PodCliqueScalingGroup",
        READY,
        "All replicas that the group asks for are available.",
        (ALL_REPLICAS_AVAILABLE, REPLICAS_UNAVAILABLE),
    ),
    Entry(
        "PodCliqueScalingGroup",
        AVAILABLE,
        "At least minAvailable replicas are available: every clique of them has enough ready pods.",
        (SUFFICIENT_GROUP_REPLICAS, INSUFFICIENT_GROUP_REPLICAS),
    ),
    _progressing("PodCliqueScalingGroup"),
    _stalled("PodCliqueScalingGroup", SYNC_FAILED),
    Entry(
        "ClusterTopologyBinding",
        READY,
        "The topology object of every scheduler that reads one has the levels of the binding.",
        (IN_SYNC, DRIFT, TOPOLOGY_NOT_FOUND, INVALID),
    ),
    Entry(
        "ClusterTopologyBinding",
        AVAILABLE,
        "The same as Ready.",
        (IN_SYNC, DRIFT, TOPOLOGY_NOT_FOUND, INVALID),
    ),
    _progressing("ClusterTopologyBinding"),
    _stalled("ClusterTopologyBinding", DRIFT, TOPOLOGY_NOT_FOUND, INVALID),
    Entry(
        "ClusterTopologyBinding",
        ACCEPTED,
        "The binding does not contradict itself, and the schedulers that it references read topology.",
        (VALID, INVALID),
    ),
    Entry(
        "ClusterTopologyBinding",
        SCHEDULER_TOPOLOGY_DRIFT,
        "A scheduler's topology object has other levels than the binding.",
        (IN_SYNC, DRIFT, TOPOLOGY_NOT_FOUND),
    ),
)
