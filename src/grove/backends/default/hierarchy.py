"""The tree of a gang for CompositePodGroups, and the template that each node of it points to.

A Workload takes at most eight templates in a list, while a gang may have more podgroups: those of one kind
then share a template. Nothing reads a template back, so what exceeds the limit shares the last one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from grove.api import names
from grove.api.gang import PodGang, PodGroup
from grove.backends.shape import groups_by_podgroup

TEMPLATE_LIMIT: Final = 8
ROOT: Final = "root"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where a podgroup hangs; `branch` is empty directly below the root."""

    branch: str
    template: str
    defines_template: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """Podgroups that share a constraint."""

    name: str
    key: str | None
    members: tuple[PodGroup, ...]
    template: str = ""
    defines_template: bool = False

    def kind(self) -> tuple[object, ...]:
        return (self.key, *(_kind(member) for member in self.members))


@dataclass(frozen=True, slots=True)
class Tree:
    """A gang as a tree: the root, its branches in the gang's order, and the podgroups."""

    branches: tuple[Branch, ...]
    direct: tuple[PodGroup, ...]
    leaves: Mapping[str, Leaf]

    @property
    def needed_children(self) -> int:
        return sum(1 for branch in self.branches if needed(branch.members)) + needed(self.direct)

    @staticmethod
    def of(gang: PodGang) -> "Tree":
        membership = groups_by_podgroup(gang)
        grown = []
        for group in gang.spec.topology_constraint_group_configs:
            members = tuple(
                each
                for each in gang.spec.podgroups
                if each.name in membership and membership[each.name].name == group.name
            )
            if members:
                key = group.topology_constraint.required if group.topology_constraint else None
                grown.append(Branch(group.name, key, members))
        direct = tuple(each for each in gang.spec.podgroups if each.name not in membership)
        branches, leaves = _with_templates(grown, direct)
        return Tree(branches, direct, leaves)


def needed(podgroups: Sequence[PodGroup]) -> int:
    """How many of the podgroups the gang cannot do without."""
    return sum(1 for each in podgroups if each.min_replicas > 0)


def _with_templates(
    grown: Sequence[Branch], direct: Sequence[PodGroup]
) -> tuple[tuple[Branch, ...], Mapping[str, Leaf]]:
    """Branches and leaves with their templates; every template name is used once in the whole tree."""
    taken = {ROOT}
    model_of = _shared(grown, Branch.kind)
    branches: list[Branch] = []
    leaves = _leaves("", direct, taken)
    for index, branch in enumerate(grown):
        model = model_of[index]
        if model == index:
            template = _unused(branch.name, "group", taken)
            branches.append(Branch(branch.name, branch.key, branch.members, template, True))
            leaves |= _leaves(branch.name, branch.members, taken)
            continue
        original = branches[model]
        branches.append(Branch(branch.name, branch.key, branch.members, original.template))
        for place, member in enumerate(branch.members):
            twin = original.members[min(place, len(original.members) - 1)]
            leaves[member.name] = Leaf(branch.name, leaves[twin.name].template, False)
    return tuple(branches), leaves


def _leaves(branch: str, podgroups: Sequence[PodGroup], taken: set[str]) -> dict[str, Leaf]:
    model_of = _shared(podgroups, _kind)
    leaves: dict[str, Leaf] = {}
    for index, podgroup in enumerate(podgroups):
        model = model_of[index]
        if model == index:
            leaves[podgroup.name] = Leaf(branch, _unused(podgroup.name, "podgroup", taken), True)
        else:
            leaves[podgroup.name] = Leaf(branch, leaves[podgroups[model].name].template, False)
    return leaves


def _shared(items: Sequence[T], kind: Callable[[T], object]) -> list[int]:
    """For each item the index of the one whose template it uses: its own while eight are enough."""
    if len(items) <= TEMPLATE_LIMIT:
        return list(range(len(items)))
    models: dict[object, int] = {}
    chosen: list[int] = []
    for index, item in enumerate(items):
        if kind(item) not in models:
            last = max(models.values(), default=0)
            models[kind(item)] = index if len(set(models.values())) < TEMPLATE_LIMIT else last
        chosen.append(models[kind(item)])
    return chosen


def _kind(podgroup: PodGroup) -> object:
    required = podgroup.topology_constraint.required if podgroup.topology_constraint else None
    return podgroup.min_replicas, required


def _unused(name: str, prefix: str, taken: set[str]) -> str:
    """A DNS label for this name that no other template has."""
    label = names.shortened(name.replace(".", "-"))
    while label in taken:
        label = names.shortened(f"{prefix}-{label}")
    taken.add(label)
    return label
