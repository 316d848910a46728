"""The native objects of a gang, for each generation and mode, and the names by which pods point to them.

Pure and deterministic. A pod's link and the object it points to get their name from the same function.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from grove.api import names
from grove.api.gang import GangTopologyConstraint, PodGang, PodGroup
from grove.api.kinds import GANGS
from grove.backends.default.generation import COMPOSITES, Generation
from grove.backends.default.hierarchy import Tree, needed
from grove.backends.default.modes import Mode, shape_of
from grove.backends.shape import is_ours, owned_by
from grove.meta import Manifest, Resource

#: How many podgroups a Workload takes.
WORKLOAD_LIMIT: Final = 8
_NAME_LIMIT: Final = 253
_MERGED_NAME: Final = "gang"


# Without slots: what most who ask for a name never need is found when it is needed.
@dataclass(frozen=True)
class Dialect:
    """How this gang is said on this cluster."""

    gang: PodGang
    generation: Generation
    mode: Mode
    #: Which start of the gang this is: a part of all names, as most of what is said cannot be changed later.
    revision: str

    @cached_property
    def _metadata(self) -> Callable[[str], Manifest]:
        return owned_by(self.gang)

    @cached_property
    def _prefix(self) -> str:
        """In front of a podgroup's name: cliques of sets have names that are unique in the namespace."""
        # As everywhere else: a gang that loses its owner by hand gets it back, and its pods know this name.
        return "" if is_ours(self.gang) else f"{self.gang.name}-"

    def manifests(self) -> tuple[Manifest, ...]:
        """The gang's objects, in the order in which they must exist."""
        if not self.generation.has_podgroups:
            return tuple(self._workloads())
        if self.mode is Mode.HIERARCHICAL:
            return tuple(self._hierarchy())
        if self.mode is Mode.MERGED:
            key = shape_of(self.gang).shared_key()
            return (self._podgroup(self.merged_name(), self.gang.minimum, key),)
        shape = shape_of(self.gang)
        return tuple(
            self._podgroup(self.podgroup_name(each), each.min_replicas, shape.own_key(each.name))
            for each in self.gang.spec.podgroups
        )

    def podgroup_members(self) -> Mapping[str, frozenset[str]]:
        """Which podgroups of the gang each PodGroup object stands for."""
        if self.mode is Mode.MERGED:
            return {self.merged_name(): frozenset(each.name for each in self.gang.spec.podgroups)}
        return {self.podgroup_name(each): frozenset({each.name}) for each in self.gang.spec.podgroups}

    def link(self, podgroup: PodGroup) -> Manifest:
        """The field of a pod's spec that makes it a member."""
        merged = self.mode is Mode.MERGED
        if self.generation.has_podgroups:
            name = self.merged_name() if merged else self.podgroup_name(podgroup)
            return {"schedulingGroup": {"podGroupName": name}}
        group = _MERGED_NAME if merged else _label(podgroup.name)
        index = [each.name for each in self.gang.spec.podgroups].index(podgroup.name)
        return {"workloadRef": {"name": self._workload_name(index), "podGroup": group}}

    def merged_name(self) -> str:
        return self._named(self.gang.name)

    def podgroup_name(self, podgroup: PodGroup) -> str:
        """The name of the PodGroup object of one podgroup."""
        return self._named(self._prefix + podgroup.name)

    def _named(self, name: str, suffix: str = "") -> str:
        suffix = f"-{self.revision}{suffix}" if self.revision else suffix
        return names.shortened(name, _NAME_LIMIT - len(suffix)) + suffix

    # 1.35 ------------------------------------------------------------------------------------------

    def _workloads(self) -> Sequence[Manifest]:
        if self.mode is Mode.MERGED:
            chunks = [[_policy_entry(_MERGED_NAME, self.gang.minimum)]]
        else:
            entries = [
                _policy_entry(_label(each.name), each.min_replicas) for each in self.gang.spec.podgroups
            ]
            chunks = [entries[at : at + WORKLOAD_LIMIT] for at in range(0, len(entries), WORKLOAD_LIMIT)]
        return [
            self._object(
                self.generation.workloads,
                self._workload_name(number * WORKLOAD_LIMIT),
                {"controllerRef": self._controller(), "podGroups": chunk},
            )
            for number, chunk in enumerate(chunks)
        ]

    def _workload_name(self, podgroup_index: int) -> str:
        if self.mode is Mode.MERGED or len(self.gang.spec.podgroups) <= WORKLOAD_LIMIT:
            return self._named(self.gang.name)
        return self._named(self.gang.name, f"-w{podgroup_index // WORKLOAD_LIMIT}")

    # 1.36 and later --------------------------------------------------------------------------------

    def _podgroup(self, name: str, minimum: int, key: str | None, links: Manifest | None = None) -> Manifest:
        spec: Manifest = {**(links or {}), "schedulingPolicy": policy("minCount", minimum)}
        spec.update(self._constraints(key))
        made = self._object(self.generation.podgroups, name, spec)
        for reference in made["metadata"]["ownerReferences"]:
            # The cluster keeps a PodGroup for as long as pods of it run. A gang that is deleted in the
            # foreground must not wait for that: its successor comes only when it is gone.
            reference["blockOwnerDeletion"] = False
        return made

    def _constraints(self, key: str | None) -> Manifest:
        spec: Manifest = {}
        if key:
            spec["schedulingConstraints"] = {"topology": [{"key": key}]}
        if self.generation.preemption:
            spec["disruptionMode"] = "PodGroup" if self.generation.version == "v1alpha2" else {"all": {}}
            if self.gang.spec.priority_class_name:
                spec["priorityClassName"] = self.gang.spec.priority_class_name
        return spec

    def _hierarchy(self) -> Sequence[Manifest]:
        gang, tree, top = self.gang, Tree.of(self.gang), self._named(self.gang.name)
        root = {"schedulingPolicy": policy("minGroupCount", tree.needed_children)}
        root |= self._constraints(_key(gang.spec.topology_constraint))
        made = [
            self._object(
                self.generation.workloads,
                top,
                {
                    "controllerRef": self._controller(),
                    "compositePodGroupTemplates": [self._template(tree, root)],
                },
            ),
            self._object(COMPOSITES, top, {"workloadRef": self._ref("root"), **root}),
        ]
        made += [
            self._object(
                COMPOSITES,
                self._composite_name(branch.name),
                {
                    "parentCompositePodGroupName": top,
                    "workloadRef": self._ref(branch.template),
                    "schedulingPolicy": policy("minGroupCount", needed(branch.members)),
                    **self._constraints(branch.key),
                },
            )
            for branch in tree.branches
        ]
        for podgroup in gang.spec.podgroups:
            leaf = tree.leaves[podgroup.name]
            parent = self._composite_name(leaf.branch) if leaf.branch else top
            links = {"parentCompositePodGroupName": parent, "workloadRef": self._ref(leaf.template)}
            key = _key(podgroup.topology_constraint)
            made.append(self._podgroup(self.podgroup_name(podgroup), podgroup.min_replicas, key, links))
        return made

    def _template(self, tree: Tree, root: Manifest) -> Manifest:
        template: Manifest = {"name": "root", **root}
        branches = [
            {
                "name": branch.template,
                "schedulingPolicy": policy("minGroupCount", needed(branch.members)),
                **self._constraints(branch.key),
                "podGroupTemplates": self._leaf_templates(tree, branch.members),
            }
            for branch in tree.branches
            if branch.defines_template
        ]
        if branches:
            template["compositePodGroupTemplates"] = branches
        if tree.direct:
            template["podGroupTemplates"] = self._leaf_templates(tree, tree.direct)
        return template

    def _leaf_templates(self, tree: Tree, podgroups: Sequence[PodGroup]) -> list[Manifest]:
        return [
            {
                "name": tree.leaves[each.name].template,
                "schedulingPolicy": policy("minCount", each.min_replicas),
                **self._constraints(_key(each.topology_constraint)),
            }
            for each in podgroups
            if tree.leaves[each.name].defines_template
        ]

    def _composite_name(self, group: str) -> str:
        return self._named(f"{self.gang.name}-{group}")

    def _ref(self, template: str) -> Manifest:
        return {"workloadName": self._named(self.gang.name), "templateName": template}

    # all -------------------------------------------------------------------------------------------

    def _controller(self) -> Manifest:
        return {"apiGroup": GANGS.gvk.group, "kind": GANGS.kind, "name": self.gang.name}

    def _object(self, resource: Resource, name: str, spec: Manifest) -> Manifest:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": self._metadata(name),
            "spec": spec,
        }


def policy(counter: str, minimum: int) -> Manifest:
    """All or nothing from one member on; what needs no member is scheduled as it comes."""
    return {"gang": {counter: minimum}} if minimum > 0 else {"basic": {}}


def _policy_entry(name: str, minimum: int) -> Manifest:
    return {"name": name, "policy": policy("minCount", minimum)}


def _key(constraint: GangTopologyConstraint | None) -> str | None:
    return constraint.required if constraint else None


def _label(name: str) -> str:
    return names.shortened(name.replace(".", "-"))
