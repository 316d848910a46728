"""What becomes of each property of a gang in translation: the whole account, not only what is lost.

A backend names its exceptions; the rest follows from what it declares. Whatever is required and cannot be
said is refused here, so that no backend can forget to.
"""

from collections.abc import Iterable

from grove.api import labels
from grove.api.gang import PodGang
from grove.backends.base import Capability, Fidelity, Treatment
from grove.backends.shape import gang_constraints
from grove.errors import Unsupported


def properties_of(gang: PodGang) -> tuple[Capability, ...]:
    """What a gang asks of its scheduler, in the order of the capabilities."""
    spec = gang.spec
    asked = [Capability.GANG]
    if len(spec.podgroups) > 1:
        asked.append(Capability.SUBGROUPS)
    if spec.topology_constraint_group_configs:
        asked.append(Capability.HIERARCHY)
    constraints = list(gang_constraints(gang))
    if any(each.required for each in constraints):
        asked.append(Capability.TOPOLOGY_REQUIRED)
    if any(each.preferred for each in constraints):
        asked.append(Capability.TOPOLOGY_PREFERRED)
    if {labels.REPLICA_REQUIRED, labels.REPLICA_PREFERRED} & gang.annotations.keys():
        asked.append(Capability.REPLICA_TOPOLOGY)
    if spec.priority_class_name:
        asked.append(Capability.PRIORITY)
    if spec.reuse_reservation_ref is not None:
        asked.append(Capability.REUSE)
    return tuple(asked)


def account(
    gang: PodGang, able: frozenset[Capability], scheduler: str, exceptions: Iterable[Treatment] = ()
) -> tuple[Treatment, ...]:
    """One entry for each property that the gang has and each exception; raises Unsupported for a lost must.

    `able` is what the backend declares; an exception says what it does not keep, or keeps otherwise, of this
    gang and why.
    """
    special = list(exceptions)
    named = {each.property for each in special}
    entries = special + [
        _by_default(asked, able, scheduler, must=_is_must(asked, gang))
        for asked in properties_of(gang)
        if asked not in named
    ]
    refused = [each.reason for each in entries if each.required and each.fidelity is Fidelity.NOT_EXPRESSIBLE]
    if refused:
        raise Unsupported(f"gang {gang.key}: {'; '.join(refused)}")
    return tuple(sorted(entries, key=lambda each: _RANK.get(each.property, len(_RANK))))


_RANK = {capability.value: rank for rank, capability in enumerate(Capability)}


def _is_must(asked: Capability, gang: PodGang) -> bool:
    if asked is Capability.REPLICA_TOPOLOGY:
        return labels.REPLICA_REQUIRED in gang.annotations
    return asked is Capability.TOPOLOGY_REQUIRED


def _by_default(asked: Capability, able: frozenset[Capability], scheduler: str, *, must: bool) -> Treatment:
    if asked in able:
        return Treatment(asked, Fidelity.ENFORCED, required=must)
    return Treatment(asked, Fidelity.NOT_EXPRESSIBLE, f"{scheduler} {_LACKS[asked]}", required=must)


_LACKS = {
    Capability.GANG: "does not place gangs as a whole",
    Capability.SUBGROUPS: "does not enforce a minimum for each podgroup",
    Capability.HIERARCHY: "does not support groups of podgroups",
    Capability.TOPOLOGY_REQUIRED: (
        "cannot enforce a required topology constraint; use pack.preferred, remove the constraint or choose "
        "another scheduler backend"
    ),
    Capability.TOPOLOGY_PREFERRED: "does not support preferred topology",
    Capability.REPLICA_TOPOLOGY: "cannot hold a scaled gang to the topology domain of its replica",
    Capability.PRIORITY: "does not support gang priorities",
    Capability.QUEUE: "does not support queues",
    Capability.REUSE: "cannot reuse a reservation; the gang is placed without it",
    Capability.PLACEMENT_SCORE: "reports no placement score",
}
