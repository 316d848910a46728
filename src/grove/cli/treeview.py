"""Sets, gangs without a set, and all below them as trees: scheduler's objects, cliques, pods. Pure.

Next to each gang that is not running stands why, in the words of its conditions. Reads values, asks nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import RUNNING, PodGang
from grove.api.pod import Pod
from grove.cli.shown_pod import trouble_of
from grove.meta import Condition, Key, Manifest, Object, find_condition, is_true
from grove.plan.foreign import is_foreign


@dataclass(frozen=True, slots=True)
class World:
    """What was found in the cluster."""

    cliquesets: Sequence[PodCliqueSet]
    gangs: Sequence[PodGang] = ()
    cliques: Sequence[PodClique] = ()
    pods: Sequence[Pod] = ()
    #: The schedulers' objects, of whatever kind.
    objects: Sequence[Manifest] = ()


T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class _Below:
    """What is below each set, gang and clique; looked up, because a big cluster has thousands of each."""

    gangs: Mapping[Key, Sequence[PodGang]]
    cliques: Mapping[Key, Sequence[PodClique]]
    cliques_of_gang: Mapping[Key, Sequence[PodClique]]
    pods_of_gang: Mapping[Key, Sequence[Pod]]
    pods_of_clique: Mapping[Key, Sequence[Pod]]
    objects: Mapping[str, Sequence[Manifest]]

    @classmethod
    def of(cls, world: World) -> "_Below":
        objects: dict[str, list[Manifest]] = {}
        for each in world.objects:
            for owner in each["metadata"].get("ownerReferences") or ():
                objects.setdefault(str(owner.get("uid")), []).append(each)
        return cls(
            _by_label([gang for gang in world.gangs if not is_foreign(gang)], labels.PART_OF),
            _by_label(world.cliques, labels.PART_OF),
            _by_label(world.cliques, labels.POD_GANG),
            _by_label(world.pods, labels.POD_GANG),
            _by_label(world.pods, labels.POD_CLIQUE),
            objects,
        )


def _by_label(items: Iterable[T], label: str) -> dict[Key, list[T]]:
    found: dict[Key, list[T]] = {}
    for item in items:
        found.setdefault(Key(item.namespace, item.labels.get(label, "")), []).append(item)
    return found


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
    why: tuple[str, ...] = ()
    children: "tuple[Node, ...]" = ()


#: Conditions that are bad news when they have this status, and the words that introduce their message.
_NEWS: Final = (
    (conditions.OWNERSHIP_CONFLICT, "True", "somebody else owns a field of its scheduler object"),
    (conditions.DISRUPTION_TARGET, "True", "disrupted"),
    (conditions.UNHEALTHY, "True", "lost pods"),
    (conditions.GANG_GUARANTEE, "False", "no gang guarantee"),
    (conditions.TRANSLATION_LOSS, "True", "cannot be expressed in full"),
)
#: Those that do not keep a gang from running.
_NOTES: Final = tuple(
    words for type_, _, words in _NEWS if type_ in (conditions.GANG_GUARANTEE, conditions.TRANSLATION_LOSS)
)


def forest(world: World) -> list[Node]:
    """One tree for each set, then one for each gang that belongs to no set; by namespace and name."""
    below = _Below.of(world)
    sets = sorted(world.cliquesets, key=lambda item: item.key)
    known = {each.key for each in sets}
    alone = [gang for gang in world.gangs if _set_of(gang) not in known]
    return [
        *(_cliqueset(each, below) for each in sets),
        *(_gang(each, below, alone=True) for each in sorted(alone, key=lambda item: item.key)),
    ]


def _set_of(gang: PodGang) -> Key | None:
    """The set that a gang belongs to; a gang of somebody else may carry such a label by chance."""
    name = gang.labels.get(labels.PART_OF, "")
    return Key(gang.namespace, name) if name and not is_foreign(gang) else None


def lines(node: Node, *, plain: bool = False) -> list[str]:
    """The tree as text; `plain` uses ASCII only."""
    return [_line(node), *_below(node, "", plain=plain)]


def as_manifest(node: Node) -> Manifest:
    """The tree as data."""
    manifest: Manifest = {"kind": node.kind, "name": node.name, **node.facts}
    if node.why:
        manifest["why"] = list(node.why)
    if node.children:
        manifest["children"] = [as_manifest(child) for child in node.children]
    return manifest


def why_not(gang: PodGang) -> tuple[str, ...]:
    """Why a gang is not running, the most important reason first; empty when it runs and nothing is amiss."""
    reasons = [_news(gang.status.conditions, *each) for each in _NEWS]
    return tuple(reason for reason in (_waiting_for(gang), *reasons) if reason)


def _waiting_for(gang: PodGang) -> str:
    """The first step on the way to Running that is said not to be made, or else one that nobody spoke of."""
    if gang.status.phase == RUNNING:
        return ""
    steps = (
        (conditions.INITIALIZED, "waits for its pods"),
        (conditions.SCHEDULED, "not placed"),
        (conditions.READY, "not ready"),
    )
    said = [find_condition(gang.status.conditions, name) for name, _ in steps]
    scheduled = said[1]
    if scheduled is not None and scheduled.reason in _NOT_TRANSLATED and not scheduled.is_true:
        # Its pods wait because its scheduler cannot be asked: the cause is more useful than the symptom.
        return _sentence("not handed to its scheduler", scheduled.message)
    for (_, words), condition in zip(steps, said, strict=True):
        if condition is not None and not condition.is_true:
            return _sentence(words, condition.message)
    unsaid = [words for (_, words), condition in zip(steps, said, strict=True) if condition is None]
    return _sentence(unsaid[0], "nobody has said why yet") if unsaid else ""


_NOT_TRANSLATED: Final = frozenset(
    {
        conditions.PRECONDITION_MISSING,
        conditions.BACKEND_NOT_ENABLED,
        conditions.UNSUPPORTED,
        conditions.SYNC_FAILED,
        conditions.OWNERSHIP_CONFLICT,
    }
)


def _news(said: Iterable[Condition], type: str, bad: str, words: str) -> str:
    condition = find_condition(said, type)
    return _sentence(words, condition.message) if condition is not None and condition.status == bad else ""


def _sentence(words: str, message: str) -> str:
    return f"{words}: {' '.join(message.split())}" if message else words


def _cliqueset(cliqueset: PodCliqueSet, below: _Below) -> Node:
    status = cliqueset.status
    wanted = cliqueset.spec.replicas
    why = [
        _news(status.conditions, conditions.ACCEPTED, "False", "refused"),
        _news(status.conditions, conditions.TOPOLOGY_LEVELS_UNAVAILABLE, "True", "topology"),
    ]
    if status.observed_generation is None:
        why.append("no operator has looked at it yet")
    gangs = below.gangs.get(cliqueset.key, ())
    known = {gang.name for gang in gangs}
    strays = [
        clique
        for clique in below.cliques.get(cliqueset.key, ())
        if clique.labels.get(labels.POD_GANG) not in known
    ]
    placed = sum(1 for gang in gangs if is_true(gang.status.conditions, conditions.SCHEDULED))
    words = [f"{status.available_replicas} of {wanted} available", f"{placed} of {len(gangs)} gangs placed"]
    return Node(
        "PodCliqueSet",
        str(cliqueset.key),
        (*words, *_going(cliqueset)),
        {
            "replicas": wanted,
            "availableReplicas": status.available_replicas,
            "gangs": len(gangs),
            "placedGangs": placed,
        },
        tuple(each for each in why if each),
        (
            *(_gang(gang, below) for gang in sorted(gangs, key=_natural)),
            *(_clique(clique, below) for clique in sorted(strays, key=_natural)),
        ),
    )


def _gang(gang: PodGang, below: _Below, *, alone: bool = False) -> Node:
    """A gang and what belongs to it; one that stands `alone` has its namespace in its name."""
    pods = below.pods_of_gang.get(gang.key, ())
    bound = sum(1 for pod in pods if pod.bound and pod.active)
    ready = sum(1 for pod in pods if pod.ready and pod.active)
    backend = gang.labels.get(labels.SCHEDULER_BACKEND, "")
    phase = gang.status.phase or "Pending"
    words = [phase, f"{bound} of {len(pods)} pods placed", f"{ready} ready", f"needs {gang.minimum}"]
    if backend:
        words.append(f"backend {backend}")
    if gang.status.placement_score is not None:
        words.append(f"score {gang.status.placement_score:g}")
    objects = below.objects.get(gang.uid, ())
    cliques = below.cliques_of_gang.get(gang.key, ())
    roles = {clique.name for clique in cliques}
    # Pods of a gang that somebody else made have no clique.
    others = [pod for pod in pods if pod.labels.get(labels.POD_CLIQUE, "") not in roles]
    return Node(
        "PodGang",
        str(gang.key) if alone else gang.name,
        (*words, *_going(gang)),
        {
            "phase": phase,
            "backend": backend,
            "pods": len(pods),
            "placed": bound,
            "ready": ready,
            "minimum": gang.minimum,
        },
        why_not(gang),
        (
            *(_object(each) for each in sorted(objects, key=_manifest_order)),
            *(_clique(clique, below) for clique in sorted(cliques, key=_natural)),
            *(_pod(pod) for pod in sorted(others, key=_natural)),
        ),
    )


def _object(manifest: Manifest) -> Node:
    return Node(
        str(manifest.get("kind", "")),
        str(manifest["metadata"]["name"]),
        (str(manifest.get("apiVersion", "")),),
        {"apiVersion": manifest.get("apiVersion", "")},
    )


def _clique(clique: PodClique, below: _Below) -> Node:
    pods = below.pods_of_clique.get(clique.key, ())
    ready = sum(1 for pod in pods if pod.ready and pod.active)
    return Node(
        "PodClique",
        clique.name,
        (f"{ready} of {clique.spec.replicas} ready", *_going(clique)),
        {"replicas": clique.spec.replicas, "ready": ready, "minimum": clique.spec.minimum},
        tuple(_sentence(error.code, error.description) for error in clique.status.last_errors),
        tuple(_pod(pod) for pod in sorted(pods, key=_natural)),
    )


def _pod(pod: Pod) -> Node:
    phase = pod_phase(pod)
    facts: Manifest = {"phase": phase, "ready": pod.ready, "hostname": pod.spec.hostname}
    trouble = trouble_of(pod) if not pod.terminating else None
    if trouble is not None:
        phase = facts["phase"] = trouble.reason
    words = [phase]
    if pod.spec.node_name:
        facts["node"] = pod.spec.node_name
        words.append(f"on {pod.spec.node_name}")
    elif pod.spec.scheduling_gates:
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        facts["gates"] = gates
        words.append(f"behind {', '.join(gates)}")
    return Node("Pod", pod.name, tuple(words), facts, (trouble.sentence,) if trouble is not None else ())


def pod_phase(pod: Pod) -> str:
    """One word for where a pod is on its way."""
    if pod.terminating:
        return "Terminating"
    if pod.spec.scheduling_gates:
        return "Gated"
    if pod.status.phase == "Pending" and pod.bound:
        return "Starting"
    if pod.status.phase == "Running" and not pod.ready:
        return "NotReady"
    return pod.status.phase or "Pending"


def _said(reason: str) -> str:
    """What keeps a gang from running, or what is true of it although it runs."""
    return f"{'note' if reason.startswith(_NOTES) else 'why not'}: {reason}"


def _line(node: Node) -> str:
    line = f"{node.kind} {node.name}"
    return "  ".join((line, *node.words))


def _below(node: Node, indent: str, *, plain: bool) -> list[str]:
    fork, last, bar = ("|- ", "`- ", "|  ") if plain else ("├─ ", "└─ ", "│  ")
    found = [f"{indent}{bar if node.children else '   '}{_said(reason)}" for reason in node.why]
    for position, child in enumerate(node.children, start=1):
        end = position == len(node.children)
        found.append(f"{indent}{last if end else fork}{_line(child)}")
        found += _below(child, indent + ("   " if end else bar), plain=plain)
    return found


def _going(item: Object) -> tuple[str, ...]:
    return ("being deleted",) if item.terminating else ()


def _natural(item: Object) -> tuple[int, str]:
    """`train-2` before `train-10`."""
    return (len(item.name), item.name)


def _manifest_order(manifest: Manifest) -> tuple[str, str]:
    return (str(manifest.get("kind", "")), str(manifest["metadata"]["name"]))
