"""Device claims that kube-scheduler cannot allocate: those that pods share which it places together.

1.35 allocates a claim once all pods that it places together have a node, and finds no node before that for
the second pod that needs the claim: the gang would wait for ever. Later ones know within one PodGroup what
they are about to allocate, but not between the PodGroups of a CompositePodGroup. Pods above the minimum come
when the claim is allocated.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from grove.api.cliqueset import (
    ALL_REPLICAS,
    PodCliqueSet,
    PodCliqueTemplate,
    ResourceSharing,
    ScalingGroupConfig,
)
from grove.backends.default.generation import Generation
from grove.backends.default.modes import Mode, choose, shapes_of_set
from grove.errors import FieldError

_TEMPLATE: Final = "spec.template"
_WAY_OUT: Final = (
    "use Kubernetes 1.36 or newer or another scheduler backend, or choose scope and filter so that no two "
    "pods of the minimum of a gang share a claim"
)
_WAY_OUT_OF_COMPOSITES: Final = (
    "set mode: Merged in the configuration of the profile, use another scheduler backend, or choose scope "
    "and filter so that no two roles of a gang share a claim"
)


class _Member(NamedTuple):
    """A podgroup of a gang: a role, in a replica of a scaling group or in none."""

    role: int
    group: int | None = None
    replica: int = 0


class _Claim(NamedTuple):
    """Where a claim is asked for, and which of those that are made from it."""

    field: str
    name: str
    owner: _Member | None = None


def inseparable_claims(
    cliqueset: PodCliqueSet, generation: Generation, config: Mapping[str, Any]
) -> Iterator[FieldError]:
    """An error for each entry by which pods would share a claim that are placed together."""
    most: dict[tuple[str, str], int] = {}
    for gang, shape in zip(_gangs(cliqueset), shapes_of_set(cliqueset), strict=True):
        for sharers in _sharers(cliqueset, gang, choose(shape, generation, config), generation):
            for claim, count in sharers.items():
                about = (claim.field, claim.name)
                most[about] = max(count, most.get(about, 0))
    early = generation.version == "v1alpha1"
    who = "pods" if early else "roles"
    why = "allocates a claim only once all of them have nodes"
    if not early:
        why = "finds no node for the second of them while it allocates the claim for the first"
    for (field, name), count in most.items():
        if count > 1:
            yield FieldError(
                field,
                f"{count} {who} of a gang would share a claim of {name!r}, and kube-scheduler of "
                f"{generation.release} cannot place such a gang: it {why}; "
                f"{_WAY_OUT if early else _WAY_OUT_OF_COMPOSITES}",
            )


def _sharers(
    cliqueset: PodCliqueSet, gang: Sequence[_Member], mode: Mode, generation: Generation
) -> Iterator[Counter[_Claim]]:
    """Who needs each claim at the same moment and cannot have it: pods, or podgroups under a composite."""
    if generation.version == "v1alpha1":
        for members in [gang] if mode is Mode.MERGED else [[each] for each in gang]:
            yield _pods_by_claim(cliqueset, members)
    elif mode is Mode.HIERARCHICAL:
        users = [_pods_by_claim(cliqueset, [each]) for each in gang]
        yield Counter(claim for each in users for claim, pods in each.items() if pods)


def _gangs(cliqueset: PodCliqueSet) -> Iterator[Sequence[_Member]]:
    """The podgroups of each gang that the set will have, in the order of `shapes_of_set`."""
    template = cliqueset.template
    numbers = {role.name: index for index, role in enumerate(template.cliques)}
    base = [_Member(numbers[role.name]) for role in cliqueset.standalone_cliques]
    groups = list(enumerate(template.pod_clique_scaling_groups))
    for index, group in groups:
        for replica in range(max(1, group.minimum)):
            base += [_Member(numbers[name], index, replica) for name in group.clique_names]
    yield base
    for index, group in groups:
        yield [_Member(numbers[name], index) for name in group.clique_names]


def _pods_by_claim(cliqueset: PodCliqueSet, members: Sequence[_Member]) -> Counter[_Claim]:
    """How many pods of the minimum of these podgroups use each claim; without those that one pod has."""
    template = cliqueset.template
    found: Counter[_Claim] = Counter()
    for member in members:
        role = template.cliques[member.role]
        group = template.pod_clique_scaling_groups[member.group] if member.group is not None else None
        for claim in _claims(template.resource_sharing, member, role, group):
            found[claim] += role.spec.minimum
    return found


def _claims(
    of_set: Sequence[ResourceSharing],
    member: _Member,
    role: PodCliqueTemplate,
    group: ScalingGroupConfig | None,
) -> Iterator[_Claim]:
    for index, each in enumerate(of_set):
        # A gang is in one replica of the set: there it is one claim, whatever the scope.
        if each.reaches(role.name, group.name if group is not None else ""):
            yield _Claim(f"{_TEMPLATE}.resourceSharing[{index}]", each.name)
    for index, each in enumerate(group.resource_sharing if group is not None else ()):
        if each.reaches(role.name):
            number = 0 if each.scope == ALL_REPLICAS else member.replica
            field = f"{_TEMPLATE}.podCliqueScalingGroups[{member.group}].resourceSharing[{index}]"
            yield _Claim(field, each.name, _Member(-1, member.group, number))
    for index, each in enumerate(role.resource_sharing):
        if each.scope == ALL_REPLICAS:
            yield _Claim(f"{_TEMPLATE}.cliques[{member.role}].resourceSharing[{index}]", each.name, member)
