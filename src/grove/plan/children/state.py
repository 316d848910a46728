"""What is known of a set when its children are planned. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, cast

from grove.api import kinds, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.controller_revision import ControllerRevision
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.api.topology import ClusterTopologyBinding
from grove.meta import Key, Manifest, Object, Resource
from grove.plan.children.engine import Children
from grove.plan.children.rows import ChildRow, Owner
from grove.plan.group_limit import ALL_GRANTED, GrantedReplicas
from grove.plan.layout import Layout, PlannedClique, PlannedGang, layout_of
from grove.plan.update.replicas import SetUpdate
from grove.plan.update.revisions import TemplateRevision, present_revision


@dataclass(frozen=True)
class CliqueSetState:
    """A set, the children of it that exist, and what was decided about them."""

    cliqueset: PodCliqueSet
    children: Children = field(default_factory=dict)
    topology: ClusterTopologyBinding | None = None
    backend: str = ""
    #: By backend, the topology object of its scheduler that the binding references.
    references: Mapping[str, str] = field(default_factory=dict)
    #: The gangs that stay with another backend for now, and with which: see `plan.moves`.
    staying: Mapping[str, str] = field(default_factory=dict)
    #: The backends that a process of their own acts for.
    external: frozenset[str] = frozenset()
    #: The gangs that have pods on nodes, and what their schedulers can be told of an edit: see `plan.edits`.
    placed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Names that children of an earlier set still have; ours come when those are gone.
    taken: Mapping[Resource, frozenset[str]] = field(default_factory=dict)
    #: By role whose template has no minimum, the one that was decided when its first clique was made.
    decided: Mapping[str, int] = field(default_factory=dict)
    #: The revision of the pods of a placed gang; asked for only where an edit may have to wait.
    revision: Callable[[str], str] = lambda name: ""
    #: The pods of a clique; None where nobody looked at them.
    pods_of: Callable[[PodClique], Sequence[Pod] | None] = lambda clique: None
    #: The scaling groups that may not have all replicas that they ask for.
    granted: GrantedReplicas = ALL_GRANTED
    #: Which template each replica follows; None where all follow the present one.
    update: SetUpdate | None = None
    #: What the ResourceClaimTemplates in the cluster say to which the set refers; None where there is none.
    claim_templates: Mapping[Key, Manifest | None] = field(default_factory=dict)
    #: Whether pods use a ResourceClaim, claims made from a ResourceClaimTemplate, or the Go operator's
    #: ServiceAccount, of this name.
    in_use: Callable[[Resource, str], bool] = lambda resource, name: False

    @property
    def gangs(self) -> Mapping[str, PodGang]:
        return cast(Mapping[str, PodGang], self.children.get(kinds.GANGS, {}))

    @property
    def cliques(self) -> Mapping[str, PodClique]:
        return cast(Mapping[str, PodClique], self.children.get(kinds.CLIQUES, {}))

    @property
    def groups(self) -> Mapping[str, PodCliqueScalingGroup]:
        return cast(Mapping[str, PodCliqueScalingGroup], self.children.get(kinds.SCALING_GROUPS, {}))

    @property
    def recorded(self) -> Mapping[str, ControllerRevision]:
        return cast(Mapping[str, ControllerRevision], self.children.get(kinds.CONTROLLER_REVISIONS, {}))

    @property
    def replicas(self) -> int:
        """How many replicas there should be now: an update may add some for as long as it goes on."""
        return self.cliqueset.spec.replicas + (self.update.surge if self.update is not None else 0)

    def built_from(self, replica: int) -> TemplateRevision:
        """What the children of a replica are built from: the set's present template, or an earlier one."""
        if self.update is None:
            return self.present
        return self.update.revision(replica) or self._unknown

    def clique_built_from(self, replica: int, clique: PlannedClique) -> TemplateRevision:
        """What a clique is built from: the replicas of a scaling group follow a new template one by one."""
        if self.update is None:
            return self.present
        return self.update.clique_revision(replica, clique) or self._unknown

    def gang_built_from(self, gang: PlannedGang) -> TemplateRevision:
        """What the pods of a gang are made from; for a scaled gang, what its cliques are built from."""
        if gang.group is None or not gang.cliques:
            return self.built_from(gang.replica)
        return self.clique_built_from(gang.replica, gang.cliques[0])

    @cached_property
    def present(self) -> TemplateRevision:
        """What the set asks for now."""
        return (
            self.update.present
            if self.update is not None
            else present_revision(self.cliqueset, self.recorded)
        )

    @cached_property
    def _unknown(self) -> TemplateRevision:
        """Stands for a template that nobody recorded; a child that is missing follows the present one."""
        return TemplateRevision(self.cliqueset.template, "", known=False)

    def layout(self, replica: int) -> Layout:
        """Which gangs and cliques a replica has: in every replica as the set's present template says."""
        return self._layout

    def followed_by(self, child: Object) -> str | None:
        """While an update goes on, the template that a child should follow: what its row depends on."""
        if self.update is None or not self.update.behind:
            return None
        replica = names.set_replica(self.cliqueset.name, child.name)
        return self.built_from(replica).hash if replica is not None else None

    @cached_property
    def _layout(self) -> Layout:
        return layout_of(self.cliqueset, self.groups, self.granted.replicas)

    def replica_in(self, name: str) -> int | None:
        """The replica that a child's name begins with, if the set has that replica."""
        replica = names.set_replica(self.cliqueset.name, name)
        return replica if replica is not None and replica < self.replicas else None

    def row(
        self,
        resource: Resource,
        name: str,
        replica: int,
        build: Callable[[ChildRow], Manifest],
        mend: Callable[[Manifest, Object], Manifest],
        owner: Owner | None = None,
        revision: TemplateRevision | None = None,
    ) -> ChildRow:
        """A row as most kinds have it: owned by the set, built from what its replica is built from."""
        built_from = revision or self.built_from(replica)
        return ChildRow(resource, name, replica, owner or self._owner, built_from, build, mend)

    @cached_property
    def _owner(self) -> Owner:
        return Owner(kinds.CLIQUESETS, self.cliqueset)


class Sorted(NamedTuple):
    """Objects that name a set as theirs: its children, and the names that children of an earlier set have."""

    children: Children
    taken: Mapping[Resource, frozenset[str]]


def sort_children(cliqueset: PodCliqueSet, found: Mapping[Resource, Iterable[Object]]) -> Sorted:
    """Whose the found objects are: decided by the UIDs of their owners; one without an owner is the set's.

    Owners may be children themselves; their kinds come first in `found`.
    """
    holders: dict[str, Mapping[str, Object]] = {kinds.CLIQUESETS.kind: {cliqueset.name: cliqueset}}
    children: dict[Resource, Mapping[str, Object]] = {}
    taken: dict[Resource, frozenset[str]] = {}
    for resource, items in found.items():
        ours, earlier = {}, set()
        for item in items:
            name, owner = item.metadata.name, item.owner
            holder = holders.get(owner.kind, {}).get(owner.name) if owner is not None else cliqueset
            if owner is None or (holder is not None and holder.metadata.uid == owner.uid):
                ours[name] = item
            elif holder is not None:
                earlier.add(name)
        children[resource] = holders[resource.kind] = ours
        taken[resource] = frozenset(earlier)
    return Sorted(children, taken)
