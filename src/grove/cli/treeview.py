"""The read model as text and as data: the words and the lines of `grove tree`. Pure; decides nothing."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from grove.cli.listing import name_of
from grove.meta import Manifest
from grove.view.model import (
    CliqueSetView,
    CliqueView,
    Forest,
    GangView,
    ObjectView,
    PodView,
    Reason,
    ScalingGroupView,
)
from grove.view.pods import CONTAINER
from grove.words import duration_in_words


@dataclass(frozen=True, slots=True)
class Node:
    """One object of the tree: what it is, what to know about it, and what is wrong."""

    kind: str
    name: str
    #: For people, in this order.
    words: tuple[str, ...] = ()
    #: For programs.
    facts: Manifest = field(default_factory=dict)
    #: Why it is not as it should be; empty when it is.
    why: tuple[Reason, ...] = ()
    children: "tuple[Node, ...]" = ()
    #: What there is to know where there is room for it.
    wide: tuple[str, ...] = ()
    #: What kubectl calls it.
    reference: str = ""


def nodes(forest: Forest) -> list[Node]:
    """A tree for each set, then one for each gang that stands alone, with its namespace in its name."""
    return [
        *(_cliqueset(each) for each in forest.cliquesets),
        *(_gang(each, name=str(each.key)) for each in forest.gangs),
    ]


def lines(node: Node, *, plain: bool = False, wide: bool = False) -> list[str]:
    """The tree as text; `plain` uses ASCII only, `wide` has everything that is known."""
    return [_line(node, wide=wide), *_below(node, "", plain=plain, wide=wide)]


def names(node: Node) -> Iterator[str]:
    """What kubectl calls the objects of a tree."""
    yield node.reference
    for child in node.children:
        yield from names(child)


def as_manifest(node: Node) -> Manifest:
    """The tree as data."""
    manifest: Manifest = {"kind": node.kind, "name": node.name, **node.facts}
    if node.why:
        manifest["why"] = [str(reason) for reason in node.why]
    if node.children:
        manifest["children"] = [as_manifest(child) for child in node.children]
    return manifest


def _cliqueset(view: CliqueSetView) -> Node:
    gangs = view.gang_count
    words = (f"{view.available} of {view.replicas} available", f"{view.placed} of {gangs} gangs placed")
    facts: Manifest = {
        "replicas": view.replicas,
        "availableReplicas": view.available,
        "gangs": gangs,
        "placedGangs": view.placed,
    }
    children = (*_gangs(view.gangs), *_cliques(view.cliques), *_scaling_groups(view.scaling_groups))
    return _node(view, str(view.key), words, facts, children)


def _gangs(views: Iterable[GangView]) -> tuple[Node, ...]:
    return tuple(_gang(view, name=view.name) for view in views)


def _gang(view: GangView, *, name: str) -> Node:
    words = [*_which(view), view.phase]
    words += [f"{view.placed} of {view.pod_count} pods placed", f"{view.ready} ready"]
    words.append(f"needs {view.minimum}")
    if view.backend:
        words.append(f"backend {view.backend}")
    if view.placement_score is not None:
        words.append(f"score {view.placement_score:g}")
    facts: Manifest = {
        "phase": view.phase,
        "backend": view.backend,
        "pods": view.pod_count,
        "placed": view.placed,
        "ready": view.ready,
        "minimum": view.minimum,
    }
    if view.replica is not None:
        facts["replica"] = view.replica
    if view.scaling_group:
        facts |= {"scalingGroup": view.scaling_group, "scalingGroupReplica": view.group_replica}
    objects = (_object(each) for each in view.objects)
    cliques = (*_cliques(view.cliques), *_scaling_groups(view.scaling_groups))
    children = (*objects, *cliques, *(_pod(pod) for pod in view.pods), *_gangs(view.scaled_gangs))
    return _node(view, name, words, facts, children)


def _which(view: GangView) -> tuple[str, ...]:
    """What a gang is a replica of: its set, or for a scaled gang a scaling group."""
    if view.scaling_group:
        return (f"replica {view.group_replica} of {view.scaling_group}",)
    return (f"replica {view.replica}",) if view.replica is not None else ()


def _scaling_groups(views: Iterable[ScalingGroupView]) -> tuple[Node, ...]:
    return tuple(
        _node(
            view,
            view.name,
            (f"{view.available} of {view.replicas} available", f"needs {view.minimum}"),
            {"replicas": view.replicas, "availableReplicas": view.available, "minimum": view.minimum},
            _cliques(view.cliques),
        )
        for view in views
    )


def _object(view: ObjectView) -> Node:
    node = _node(view, view.name, (view.api_version,), {"apiVersion": view.api_version})
    return replace(node, words=(view.api_version,), why=())


def _cliques(views: Iterable[CliqueView]) -> tuple[Node, ...]:
    return tuple(
        _node(
            view,
            view.name,
            (f"{view.ready} of {view.replicas} ready",),
            {"replicas": view.replicas, "ready": view.ready, "minimum": view.minimum},
            tuple(_pod(pod) for pod in view.pods),
        )
        for view in views
    )


def _pod(view: PodView) -> Node:
    facts: Manifest = {"phase": view.phase, "ready": view.ready, "hostname": view.hostname}
    words = [view.phase]
    if view.node is not None:
        facts["node"] = view.node.name
        words.append(f"on {view.node.name}")
    elif view.gates:
        facts["gates"] = list(view.gates)
        words.append(f"behind {', '.join(view.gates)}")
    # What the scheduler says about each pod stands once, at the gang.
    why = tuple(reason for reason in view.why if reason.source == CONTAINER)
    # A phase says already that a pod is being deleted.
    node = replace(_node(view, view.name, words, facts), words=tuple(words), why=why)
    return replace(
        node, wide=(*_place(view), *([f"host {view.hostname}"] if view.hostname else []), *node.wide)
    )


def _place(view: PodView) -> Iterator[str]:
    """Where the node of a pod stands, as far as nodes were looked at."""
    if view.node is not None:
        yield from (
            f"{what} {where}" for what, where in (("zone", view.node.zone), ("rack", view.node.rack)) if where
        )


def _node(
    view: ObjectView, name: str, words: Sequence[str], facts: Manifest, children: tuple[Node, ...] = ()
) -> Node:
    """An object with what all of them have."""
    age = (f"age {duration_in_words(view.age.total_seconds())}",) if view.age is not None else ()
    reference = name_of(view.kind, view.api_version, view.name)
    told = (*words, *_going(view))
    return Node(view.kind, name, told, facts, view.why, children, wide=age, reference=reference)


def _going(view: ObjectView) -> tuple[str, ...]:
    return ("being deleted",) if view.terminating else ()


def _said(reason: Reason) -> str:
    """What keeps an object from running, or what is true of it although it runs."""
    return f"{'why not' if reason.blocking else 'note'}: {reason}"


def _line(node: Node, *, wide: bool) -> str:
    line = f"{node.kind} {node.name}"
    return "  ".join((line, *node.words, *(node.wide if wide else ())))


def _below(node: Node, indent: str, *, plain: bool, wide: bool) -> list[str]:
    fork, last, bar = ("|- ", "`- ", "|  ") if plain else ("├─ ", "└─ ", "│  ")
    found = [f"{indent}{bar if node.children else '   '}{_said(reason)}" for reason in node.why]
    for position, child in enumerate(node.children, start=1):
        end = position == len(node.children)
        found.append(f"{indent}{last if end else fork}{_line(child, wide=wide)}")
        found += _below(child, indent + ("   " if end else bar), plain=plain, wide=wide)
    return found
