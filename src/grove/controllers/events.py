"""Every event that Grove emits, as values. Sent only after the write that they announce.

None is about a pod: on a pending pod the scheduler's own warning must stay the newest word.
"""

from typing import Final

from grove.api import kinds, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.topology import ClusterTopologyBinding
from grove.meta import Object, Resource
from grove.plan.termination import Termination
from grove.runtime.events import Event, EventTarget
from grove.words import counted

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


def _about(resource: Resource, about: Object) -> EventTarget:
    return EventTarget(resource, about.key, about.uid)


def children_written(cliqueset: PodCliqueSet, created: str) -> Event:
    return Event(NORMAL, "Created", created, _about(kinds.CLIQUESETS, cliqueset))


def children_removed(cliqueset: PodCliqueSet, removed: str) -> Event:
    return Event(NORMAL, "Removed", removed, _about(kinds.CLIQUESETS, cliqueset))


def cliqueset_refused(cliqueset: PodCliqueSet, why: str) -> Event:
    return Event(WARNING, "Refused", why, _about(kinds.CLIQUESETS, cliqueset))


def children_failed(cliqueset: PodCliqueSet, why: str) -> Event:
    return Event(WARNING, "SyncFailed", why, _about(kinds.CLIQUESETS, cliqueset))


def field_contested(cliqueset: PodCliqueSet, which: str) -> Event:
    return Event(WARNING, "FieldContested", which, _about(kinds.CLIQUESETS, cliqueset))


def update_started(cliqueset: PodCliqueSet, hash_: str) -> Event:
    message = f"replicas are updated to template {names.template_revision(cliqueset.name, hash_)}"
    return Event(NORMAL, "UpdateStarted", message, _about(kinds.CLIQUESETS, cliqueset))


def update_finished(cliqueset: PodCliqueSet, hash_: str) -> Event:
    message = f"all replicas follow template {names.template_revision(cliqueset.name, hash_)}"
    return Event(NORMAL, "UpdateFinished", message, _about(kinds.CLIQUESETS, cliqueset))


def pods_failed(clique: PodClique, why: str) -> Event:
    return Event(WARNING, "PodCreateFailed", why, _about(kinds.CLIQUES, clique))


def failed_pod_replaced(clique: PodClique, how: str) -> Event:
    return Event(WARNING, "PodFailed", f"{how} and is replaced", _about(kinds.CLIQUES, clique))


def gang_scheduled(gang: PodGang, message: str) -> Event:
    return Event(NORMAL, "Scheduled", message, _about(kinds.GANGS, gang))


def gang_unschedulable(gang: PodGang, reason: str, message: str) -> Event:
    return Event(WARNING, reason or "Unschedulable", message, _about(kinds.GANGS, gang))


def gang_lost(gang: PodGang, message: str) -> Event:
    return Event(WARNING, "Unhealthy", message, _about(kinds.GANGS, gang))


def gang_disrupted(gang: PodGang, message: str) -> Event:
    return Event(WARNING, "Disrupted", message, _about(kinds.GANGS, gang))


def pods_stuck(gang: PodGang, message: str) -> Event:
    return Event(WARNING, "PodsStuck", message, _about(kinds.GANGS, gang))


def restarted(gang: PodGang, why: str) -> Event:
    return Event(NORMAL, "Restarted", f"{why}; the gang is restarted", _about(kinds.GANGS, gang))


def gave_back(gang: PodGang, why: str) -> Event:
    message = f"{why}; its pods are deleted and the gang is restarted"
    return Event(WARNING, "GaveBack", message, _about(kinds.GANGS, gang))


def gates_stay_closed(gang: PodGang, why: str) -> Event:
    return Event(WARNING, "GatesStayClosed", why, _about(kinds.GANGS, gang))


def recycled(cliqueset: PodCliqueSet, what: Termination, pods: int) -> Event:
    """With the reasons that clients of the Go operator know."""
    below = " and ".join(clique.name for clique in what.breached)
    message = (
        f"{below} had too few working pods for longer than terminationDelay: {what.subject} is recycled, "
    )
    message += f"{counted(pods, 'pod was', 'pods were')} deleted"
    about = _about(kinds.CLIQUESETS, cliqueset)
    if what.group_replica:
        return Event(WARNING, "PodCliqueScalingGroupReplicaDeleteSuccessful", message, about)
    return Event(WARNING, "PodCliqueSetReplicaDeleteSuccessful", message, about)


def termination_pending(cliqueset: PodCliqueSet, message: str) -> Event:
    return Event(WARNING, "GangTerminationPending", message, _about(kinds.CLIQUESETS, cliqueset))


def edit_pending(cliqueset: PodCliqueSet, message: str) -> Event:
    return Event(WARNING, "EditPending", message, _about(kinds.CLIQUESETS, cliqueset))


def claim_template_missing(cliqueset: PodCliqueSet, which: str) -> Event:
    return Event(WARNING, "ResourceClaimTemplateNotFound", which, _about(kinds.CLIQUESETS, cliqueset))


def objects_repaired(gang: PodGang, what: str) -> Event:
    return Event(WARNING, "Repaired", what, _about(kinds.GANGS, gang))


def translation_failed(gang: PodGang, reason: str, why: str) -> Event:
    return Event(WARNING, reason, why, _about(kinds.GANGS, gang))


def no_guarantee(gang: PodGang, why: str) -> Event:
    return Event(WARNING, "NoGangGuarantee", why, _about(kinds.GANGS, gang))


def pods_not_prepared(gang: PodGang, why: str) -> Event:
    return Event(WARNING, "PodsNotPrepared", why, _about(kinds.GANGS, gang))


def backend_change_pending(gang: PodGang, message: str) -> Event:
    return Event(WARNING, "BackendChangePending", message, _about(kinds.GANGS, gang))


def backend_changed(gang: PodGang, old: str, new: str) -> Event:
    message = f"moved from {old or 'no backend'} to {new}; pending pods are replaced"
    return Event(NORMAL, "BackendChanged", message, _about(kinds.GANGS, gang))


def configuration_refused(about: EventTarget, why: str) -> Event:
    return Event(WARNING, "ConfigurationRefused", why, about)


def configuration_applied(about: EventTarget, what: str) -> Event:
    return Event(NORMAL, "ConfigurationApplied", what, about)


def certificate_problem(about: EventTarget, why: str) -> Event:
    return Event(WARNING, "WebhookCertificateProblem", why, about)


def levels_unavailable(cliqueset: PodCliqueSet, message: str) -> Event:
    return Event(WARNING, "TopologyLevelsUnavailable", message, _about(kinds.CLIQUESETS, cliqueset))


def binding_refused(binding: ClusterTopologyBinding, why: str) -> Event:
    return Event(WARNING, "Refused", why, _about(kinds.TOPOLOGY_BINDINGS, binding))


def topology_in_sync(binding: ClusterTopologyBinding, message: str) -> Event:
    return Event(NORMAL, "TopologyInSync", message, _about(kinds.TOPOLOGY_BINDINGS, binding))


def topology_drift(binding: ClusterTopologyBinding, message: str) -> Event:
    return Event(WARNING, "TopologyDriftDetected", message, _about(kinds.TOPOLOGY_BINDINGS, binding))
