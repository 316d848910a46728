"""Which device claims a set has, and which of them each pod uses. Pure.

A claim is shared at one of three levels: by a set, by a scaling group, by a clique. At each level it is one
claim for all replicas, or one for each: of the set, of the group, or for each pod of the clique. Where there
is no replica nobody needs a claim, so there is none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from grove.api import labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import ALL_REPLICAS, PodCliqueSet, PodCliqueSetTemplate, ResourceSharing
from grove.meta import Key, Manifest
from grove.plan.layout import Layout, PlannedClique

#: How many pods Kubernetes lets use one claim at a time.
MOST_SHARERS: Final = 256

#: How many pods a clique has or should have.
Pods = Callable[[PlannedClique], int]


class PlannedClaim(NamedTuple):
    """A claim that a set should have."""

    name: str
    sharing: ResourceSharing
    #: The replica of the set with which it is created.
    replica: int
    #: The scaling group or the clique whose pods share it; both are blank for a claim of the set.
    group: str = ""
    clique: str = ""
    #: Which replica of the set or group, or which pod of the clique it is for; None if it is for all.
    number: int | None = None

    @property
    def labels(self) -> dict[str, str]:
        """What tells the level of the claim, and for which replica or pod it is."""
        if self.clique:
            level, index = {labels.POD_CLIQUE: self.clique}, labels.POD_INDEX
        elif self.group:
            level, index = {labels.SCALING_GROUP: self.group}, labels.SCALING_GROUP_REPLICA_INDEX
        else:
            level, index = {}, labels.SET_REPLICA_INDEX
        return level if self.number is None else {**level, index: str(self.number)}


def planned_claims(layout: Layout, replica: int, pods: Pods) -> Iterator[PlannedClaim]:
    """The claims that are created with one replica of a set, whoever owns them."""
    for sharing in layout.template.resource_sharing:
        if sharing.scope != ALL_REPLICAS:
            name = names.replica_claim(layout.cliqueset, replica, sharing.name)
            yield PlannedClaim(name, sharing, replica, number=replica)
        elif replica == 0:
            yield PlannedClaim(names.shared_claim(layout.cliqueset, sharing.name), sharing, 0)
    for group, config in layout.groups(replica):
        for claim in _of_owner(group, config.resource_sharing, layout.replicas_of(group, config)):
            yield claim._replace(replica=replica, group=group)
    for clique in layout.cliques(replica):
        if clique.role.resource_sharing:
            for claim in _of_owner(clique.name, clique.role.resource_sharing, pods(clique)):
                yield claim._replace(replica=replica, clique=clique.name)


def _of_owner(owner: str, shared: Iterable[ResourceSharing], count: int) -> Iterator[PlannedClaim]:
    for sharing in shared:
        if sharing.scope != ALL_REPLICAS:
            for number in range(count):
                yield PlannedClaim(
                    names.replica_claim(owner, number, sharing.name), sharing, 0, number=number
                )
        elif count:
            yield PlannedClaim(names.shared_claim(owner, sharing.name), sharing, 0)


def claims_of_pod(
    template: PodCliqueSetTemplate, cliqueset: str, replica: int, clique: PlannedClique, index: int
) -> list[str]:
    """The claims that one pod uses, from the widest level to the narrowest, those for all before the own."""
    member, role = clique.group, clique.role
    levels = [(cliqueset, replica, template.resource_sharing)]
    if member is not None:
        levels.append((member.group, member.number, member.config.resource_sharing))
    levels.append((clique.name, index, role.resource_sharing))
    group = member.config.name if member is not None else ""
    found = []
    for owner, number, shared in levels:
        mine = [each for each in shared if each.reaches(role.name, group)]
        found += [names.shared_claim(owner, each.name) for each in mine if each.scope == ALL_REPLICAS]
        found += [
            names.replica_claim(owner, number, each.name) for each in mine if each.scope != ALL_REPLICAS
        ]
    return found


def planned_clique(cliqueset: PodCliqueSet, clique: PodClique) -> PlannedClique | None:
    """What a clique is in its set, by its name and its labels; None if the set has no such role."""
    index = names.set_replica(cliqueset.name, clique.name)
    number = clique.labels.get(labels.SCALING_GROUP_REPLICA_INDEX, "")
    # However the group is scaled by now, it had the replica that the clique is of.
    there = {clique.labels.get(labels.SCALING_GROUP, ""): int(number) + 1} if number.isdecimal() else {}
    layout = Layout(cliqueset.name, cliqueset.template, there)
    return layout.find_clique(index, clique.name) if index is not None else None


def claims_of(cliqueset: PodCliqueSet, clique: PodClique, indexes: Iterable[int]) -> dict[int, list[str]]:
    """The claims that pods of a clique use, by the index of the pod."""
    planned = planned_clique(cliqueset, clique) if shares(cliqueset.template) else None
    replica = names.set_replica(cliqueset.name, clique.name)
    if planned is None or replica is None:
        return {index: [] for index in indexes}
    return {
        index: claims_of_pod(cliqueset.template, cliqueset.name, replica, planned, index) for index in indexes
    }


# Templates ----------------------------------------------------------------------------------------


def external_template(sharing: ResourceSharing, template: PodCliqueSetTemplate, namespace: str) -> Key | None:
    """The ResourceClaimTemplate in the cluster that is meant; None if the set has one of that name itself."""
    if not sharing.namespace and any(each.name == sharing.name for each in template.resource_claim_templates):
        return None
    return Key(sharing.namespace or namespace, sharing.name)


def all_sharing(template: PodCliqueSetTemplate) -> Iterator[ResourceSharing]:
    """Everything that is shared, at whatever level."""
    yield from template.resource_sharing
    for group in template.pod_clique_scaling_groups:
        yield from group.resource_sharing
    for clique in template.cliques:
        yield from clique.resource_sharing


def shares(template: PodCliqueSetTemplate) -> bool:
    """Whether pods share devices at any level."""
    return any(True for _ in all_sharing(template))


def external_templates(cliqueset: PodCliqueSet) -> list[Key]:
    """The ResourceClaimTemplates in the cluster that a set refers to."""
    template = cliqueset.template
    found = (external_template(sharing, template, cliqueset.namespace) for sharing in all_sharing(template))
    return sorted({key for key in found if key is not None})


def missing_templates(known: Mapping[Key, Manifest | None]) -> list[str]:
    """A sentence for each template that a set refers to and the cluster does not have."""
    return [
        f"ResourceClaimTemplate {key} does not exist; pods that share devices by it wait until it does"
        for key, spec in sorted(known.items())
        if spec is None
    ]


def claim_spec(
    sharing: ResourceSharing,
    template: PodCliqueSetTemplate,
    namespace: str,
    external: Mapping[Key, Manifest | None],
) -> Manifest | None:
    """What a claim asks for; None while the template that says so is not known."""
    key = external_template(sharing, template, namespace)
    if key is not None:
        return external.get(key)
    own = next(each for each in template.resource_claim_templates if each.name == sharing.name)
    spec = own.template_spec.get("spec")
    return spec if isinstance(spec, dict) else {}


# Pods ---------------------------------------------------------------------------------------------


def with_claims(spec: Manifest, claims: Sequence[str]) -> Manifest:
    """The pod spec with these claims for all of its containers; an entry of the same name is kept."""
    if not claims:
        return spec
    names_of = {names.claim_reference(claim): claim for claim in claims}
    entries = [{"name": name, "resourceClaimName": claim} for name, claim in names_of.items()]
    listed = {**spec, "resourceClaims": _added(spec.get("resourceClaims"), entries)}
    uses = [{"name": name} for name in names_of]
    for field in ("containers", "initContainers"):
        if spec.get(field):
            listed[field] = [_using(container, uses) for container in spec[field]]
    return listed


def _using(container: Manifest, uses: Sequence[Manifest]) -> Manifest:
    resources = container.get("resources") or {}
    return {**container, "resources": {**resources, "claims": _added(resources.get("claims"), uses)}}


def _added(have: Any, more: Iterable[Manifest]) -> list[Manifest]:
    known = list(have or ())
    there = {each.get("name") for each in known}
    return known + [each for each in more if each["name"] not in there]
