"""TAS2 to TAS16 and TAS23 of the incumbent's end-to-end tests as a table: what is asked for, what KAI is told,
and which pods must end up in one domain.

Four levels, as there: zone, block, rack, host. A pod takes half a node, so that two of them fit on a host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.scenarios.stories import gpu_role

from grove.api import kinds, labels
from grove.meta import Manifest
from grove.testing import make

ZONE: Final = "kubernetes.io/zone"
BLOCK: Final = "kubernetes.io/block"
RACK: Final = "kubernetes.io/rack"
HOST: Final = "kubernetes.io/hostname"
LEVELS: Final = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOST}

NODES: Final = 28
_PER_BLOCK: Final = 14
_PER_RACK: Final = 7

#: The name of every set here, and of the binding.
SET: Final = "tas"
BINDING: Final = "grove-topology"


def place_of(index: int) -> dict[str, str]:
    """The labels of a node: 28 of them are two blocks of two racks each."""
    return {ZONE: "zone-0", BLOCK: f"block-{index // _PER_BLOCK}", RACK: f"rack-{index // _PER_RACK}"}


def binding(name: str = BINDING, levels: Mapping[str, str] | None = None, **spec: object) -> Manifest:
    """A topology with these levels, broadest first; the four of this table unless given."""
    listed = [{"domain": domain, "key": key} for domain, key in (levels or LEVELS).items()]
    return make.object_manifest(kinds.TOPOLOGY_BINDINGS, name, {"levels": listed, **spec})


@dataclass(frozen=True)
class SubGroup:
    """A subGroup as KAI must get it; a parent has no minimum."""

    name: str
    minimum: int = 0
    parent: str = ""
    required: str = ""
    preferred: str = ""


@dataclass(frozen=True)
class PodGroup:
    """What KAI must get for one gang."""

    subgroups: tuple[SubGroup, ...]
    required: str = ""
    preferred: str = ""


@dataclass(frozen=True)
class Together:
    """So many pods with these labels must share the value of a node label."""

    key: str
    pods: int
    marks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Case:
    roles: Sequence[Manifest]
    pods: int
    together: tuple[Together, ...]
    podgroups: Mapping[str, PodGroup]
    groups: Sequence[Manifest] = ()
    constraint: Manifest | None = None
    replicas: int = 1

    def cliqueset(self, annotations: Mapping[str, str]) -> Manifest:
        template = {"topologyConstraint": self.constraint} if self.constraint else {}
        return make.cliqueset_manifest(
            SET,
            list(self.roles),
            groups=list(self.groups),
            replicas=self.replicas,
            template=template,
            annotations=annotations,
        )


def pack(required: str = "", preferred: str = "", *, topology: str = "") -> Manifest:
    """A constraint of a set, a group or a role."""
    asked = {"required": required, "preferred": preferred}
    named = {"topologyName": topology} if topology else {}
    return {**named, "pack": {key: domain for key, domain in asked.items() if domain}}


def top(required: str = "", preferred: str = "") -> Manifest:
    """A constraint that names the binding itself."""
    return pack(required, preferred, topology=BINDING)


def role(name: str, pods: int, constraint: Manifest | None = None) -> Manifest:
    beside = {"topologyConstraint": constraint} if constraint else {}
    return gpu_role(name, pods, gpus=4, minAvailable=pods, **beside)


def group(
    name: str, cliques: Sequence[str], replicas: int, minimum: int, constraint: Manifest | None = None
) -> Manifest:
    beside = {"topologyConstraint": constraint} if constraint else {}
    return make.scaling_group(name, cliques, replicas=replicas, minAvailable=minimum, **beside)


def clique(name: str, replica: int = 0) -> tuple[tuple[str, str], ...]:
    """The pods of a clique, by what its name ends in."""
    return ((labels.POD_CLIQUE, f"{SET}-{replica}-{name}"),)


def group_replica(name: str, index: int, replica: int = 0) -> tuple[tuple[str, str], ...]:
    """The pods of one replica of a scaling group."""
    return (
        (labels.SCALING_GROUP, f"{SET}-{replica}-{name}"),
        (labels.SCALING_GROUP_REPLICA_INDEX, str(index)),
    )


def set_replica(replica: int) -> tuple[tuple[str, str], ...]:
    return ((labels.SET_REPLICA_INDEX, str(replica)),)


def sub(name: str, minimum: int, required: str = "", *, of: str = "", replica: int = 0) -> SubGroup:
    """The subGroup of a clique, below the replica of a scaling group if one is named."""
    parent = f"{SET}-{replica}-{of}" if of else ""
    whole = f"{parent}-{name}" if of else f"{SET}-{replica}-{name}"
    return SubGroup(whole, minimum, parent, required)


def parent(name: str, required: str = "", preferred: str = "", *, replica: int = 0) -> SubGroup:
    """The subGroup of one replica of a scaling group."""
    return SubGroup(f"{SET}-{replica}-{name}", 0, "", required, preferred)


def _disaggregated(host: bool) -> tuple[Manifest, ...]:
    return (
        role("dworker", 1),
        role("dleader", 1),
        role("pworker", 1, pack("host") if host else None),
        role("pleader", 1),
        role("router", 2),
    )


def _disaggregated_podgroups(replica: int, *, host: bool) -> dict[str, PodGroup]:
    worker = HOST if host else ""
    base = PodGroup(
        (
            parent("decoder-0", RACK, replica=replica),
            parent("prefill-0", RACK, replica=replica),
            sub("router", 2, replica=replica),
            sub("dworker", 1, of="decoder-0", replica=replica),
            sub("dleader", 1, of="decoder-0", replica=replica),
            sub("pworker", 1, worker, of="prefill-0", replica=replica),
            sub("pleader", 1, of="prefill-0", replica=replica),
        ),
        BLOCK,
    )
    decoder = PodGroup(
        (sub("decoder-1-dworker", 1, replica=replica), sub("decoder-1-dleader", 1, replica=replica)), RACK
    )
    prefill = PodGroup(
        (sub("prefill-1-pworker", 1, worker, replica=replica), sub("prefill-1-pleader", 1, replica=replica)),
        RACK,
    )
    return {
        f"{SET}-{replica}": base,
        f"{SET}-{replica}-decoder-0": decoder,
        f"{SET}-{replica}-prefill-0": prefill,
    }


_DISAGGREGATED: Final = (
    group("decoder", ["dworker", "dleader"], 2, 1, pack("rack")),
    group("prefill", ["pworker", "pleader"], 2, 1, pack("rack")),
)


def _racks_of_groups(replica: int) -> tuple[Together, ...]:
    return tuple(
        Together(RACK, 2, group_replica(name, index, replica))
        for name in ("decoder", "prefill")
        for index in (0, 1)
    )


CASES: Final[Mapping[str, Case]] = {
    "TAS2 two cliques that are packed independently": Case(
        [role("worker-rack", 3, top("rack")), role("worker-block", 4, top("block"))],
        7,
        (Together(RACK, 3, clique("worker-rack")), Together(BLOCK, 4, clique("worker-block"))),
        {"tas-0": PodGroup((sub("worker-rack", 3, RACK), sub("worker-block", 4, BLOCK)))},
    ),
    "TAS3 a rack for the set only": Case(
        [role("worker", 1), role("router", 2)],
        4,
        (Together(RACK, 4),),
        {"tas-0": PodGroup((sub("router", 2), sub("workers-0-worker", 1), sub("workers-1-worker", 1)), RACK)},
        groups=[group("workers", ["worker"], 2, 2)],
        constraint=top("rack"),
    ),
    "TAS4 a rack for the scaling group only": Case(
        [role("worker", 1), role("router", 2)],
        4,
        (Together(RACK, 1, group_replica("workers", 0)), Together(RACK, 1, group_replica("workers", 1))),
        {
            "tas-0": PodGroup(
                (
                    parent("workers-0", RACK),
                    parent("workers-1", RACK),
                    sub("router", 2),
                    sub("worker", 1, of="workers-0"),
                    sub("worker", 1, of="workers-1"),
                )
            )
        },
        groups=[group("workers", ["worker"], 2, 2, top("rack"))],
    ),
    "TAS5 a host for the clique": Case(
        [role("worker", 2, top("host"))],
        2,
        (Together(HOST, 2),),
        {"tas-0": PodGroup((sub("worker", 2, HOST),))},
    ),
    "TAS6 a zone for the set": Case(
        [role("worker", 4)],
        4,
        (Together(ZONE, 4),),
        {"tas-0": PodGroup((sub("worker", 4),), ZONE)},
        constraint=top("zone"),
    ),
    "TAS7 nothing": Case(
        [role("worker", 2)],
        4,
        (),
        {"tas-0": PodGroup((sub("workers-0-worker", 2), sub("workers-1-worker", 2)))},
        groups=[group("workers", ["worker"], 2, 2)],
    ),
    "TAS8 block, rack and host, one within the other": Case(
        [role("prefill", 2, pack("host")), role("decode", 2, pack("host"))],
        8,
        (
            Together(BLOCK, 8),
            *(Together(RACK, 4, group_replica("inference", index)) for index in (0, 1)),
            *(
                Together(HOST, 2, clique(f"inference-{index}-{name}"))
                for index in (0, 1)
                for name in ("prefill", "decode")
            ),
        ),
        {
            "tas-0": PodGroup(
                (
                    parent("inference-0", RACK),
                    parent("inference-1", RACK),
                    sub("prefill", 2, HOST, of="inference-0"),
                    sub("decode", 2, HOST, of="inference-0"),
                    sub("prefill", 2, HOST, of="inference-1"),
                    sub("decode", 2, HOST, of="inference-1"),
                ),
                BLOCK,
            )
        },
        groups=[group("inference", ["prefill", "decode"], 2, 2, pack("rack"))],
        constraint=top("block"),
    ),
    "TAS9 a block for the set and a host for the clique": Case(
        [role("worker", 2, pack("host"))],
        2,
        (Together(BLOCK, 2), Together(HOST, 2)),
        {"tas-0": PodGroup((sub("worker", 2, HOST),), BLOCK)},
        constraint=top("block"),
    ),
    "TAS10 a scaling group of three, one of them in the base": Case(
        [role("worker", 2)],
        6,
        (Together(RACK, 6), *(Together(RACK, 2, group_replica("inference", index)) for index in range(3))),
        {
            "tas-0": PodGroup((parent("inference-0", RACK), sub("worker", 2, of="inference-0")), RACK),
            "tas-0-inference-0": PodGroup((sub("inference-1-worker", 2),), RACK),
            "tas-0-inference-1": PodGroup((sub("inference-2-worker", 2),), RACK),
        },
        groups=[group("inference", ["worker"], 3, 1, pack("rack"))],
        constraint=top("rack"),
    ),
    "TAS11 a rack for the scaling group and a host for the clique": Case(
        [role("worker", 2, pack("host"))],
        4,
        tuple(Together(key, 2, group_replica("workers", index)) for key in (RACK, HOST) for index in (0, 1)),
        {
            "tas-0": PodGroup(
                (
                    parent("workers-0", RACK),
                    parent("workers-1", RACK),
                    sub("worker", 2, HOST, of="workers-0"),
                    sub("worker", 2, HOST, of="workers-1"),
                )
            )
        },
        groups=[group("workers", ["worker"], 2, 2, top("rack"))],
    ),
    "TAS12 ten of a scaling group, three of them in the base": Case(
        [role("worker", 2, pack("host"))],
        20,
        (Together(BLOCK, 20), *(Together(HOST, 2, group_replica("workers", index)) for index in range(10))),
        {
            "tas-0": PodGroup(tuple(sub(f"workers-{index}-worker", 2, HOST) for index in range(3)), BLOCK),
            # The group has no constraint, so that a scaled gang has that of the set.
            **{
                f"tas-0-workers-{index - 3}": PodGroup((sub(f"workers-{index}-worker", 2, HOST),), BLOCK)
                for index in range(3, 10)
            },
        },
        groups=[group("workers", ["worker"], 10, 3)],
        constraint=top("block"),
    ),
    "TAS14 two replicas, a rack for each": Case(
        [role("worker", 2)],
        4,
        tuple(Together(RACK, 2, set_replica(replica)) for replica in (0, 1)),
        {f"tas-{replica}": PodGroup((sub("worker", 2, replica=replica),), RACK) for replica in (0, 1)},
        constraint=top("rack"),
        replicas=2,
    ),
    "TAS15 two scaling groups and a router": Case(
        _disaggregated(host=False),
        10,
        (Together(BLOCK, 10), *_racks_of_groups(0)),
        _disaggregated_podgroups(0, host=False),
        groups=_DISAGGREGATED,
        constraint=top("block"),
    ),
    "TAS16 the same twice, with a host for one clique": Case(
        _disaggregated(host=True),
        20,
        tuple(
            each
            for replica in (0, 1)
            for each in (Together(BLOCK, 10, set_replica(replica)), *_racks_of_groups(replica))
        ),
        {**_disaggregated_podgroups(0, host=True), **_disaggregated_podgroups(1, host=True)},
        groups=_DISAGGREGATED,
        constraint=top("block"),
        replicas=2,
    ),
    "TAS23 preferred packs": Case(
        [role("worker", 1), role("router", 1, pack(preferred="host"))],
        3,
        (Together(BLOCK, 3),),
        {
            "tas-0": PodGroup(
                (
                    parent("workers-0", preferred=HOST),
                    SubGroup("tas-0-router", 1, preferred=HOST),
                    sub("worker", 1, of="workers-0"),
                ),
                BLOCK,
                RACK,
            ),
            "tas-0-workers-0": PodGroup((sub("workers-1-worker", 1),), preferred=HOST),
        },
        groups=[group("workers", ["worker"], 2, 1, pack(preferred="host"))],
        constraint=top("block", "rack"),
    ),
}

#: More pods of one gang than a rack of seven nodes with two pods each holds.
TOO_MANY: Final = Case(
    [role("worker", 15)],
    15,
    (),
    {"tas-0": PodGroup((sub("worker", 15),), RACK)},
    constraint=top("rack"),
)


def podgroup_of(manifest: Manifest, topology: str) -> PodGroup:
    """A PodGroup of KAI as this table writes it; fails where a constraint names another Topology."""

    def levels(holder: Manifest) -> tuple[str, str]:
        found = holder.get("topologyConstraint")
        if not found:
            return "", ""
        assert found["topology"] == topology, f"KAI is told of the Topology {found['topology']!r}"
        return found.get("requiredTopologyLevel", ""), found.get("preferredTopologyLevel", "")

    spec = manifest["spec"]
    subgroups = tuple(
        SubGroup(each["name"], each.get("minMember", 0), each.get("parent", ""), *levels(each))
        for each in spec["subGroups"]
    )
    return PodGroup(subgroups, *levels(spec))


def without_loose_leaves(group: PodGroup) -> PodGroup:
    """What KAI 0.12 must get in its place: it drops a leaf without a parent where other leaves have one."""
    if (
        not 0
        < sum(bool(each.parent) for each in group.subgroups)
        < sum(bool(each.minimum) for each in group.subgroups)
    ):
        return group
    parents = [each for each in group.subgroups if not each.minimum]
    leaves = [replace(each, parent=each.parent or "others-0") for each in group.subgroups if each.minimum]
    return replace(group, subgroups=(*parents, SubGroup("others-0"), *leaves))


def apart(case: Case, pods: Sequence[Manifest], nodes: Mapping[str, Manifest]) -> list[str]:
    """Which pods that must be together are not, in words."""
    found = []
    for each in case.together:
        wanted = dict(each.marks)
        chosen = [pod for pod in pods if wanted.items() <= pod["metadata"]["labels"].items()]
        if len(chosen) != each.pods:
            found.append(f"{len(chosen)} pods with {wanted}, not {each.pods}")
        places = {nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][each.key] for pod in chosen}
        if len(places) != 1:
            found.append(f"pods with {wanted} are in {sorted(places)} of {each.key}")
    return found


# TAS17 --------------------------------------------------------------------------------------------

#: Two kinds of hardware: what is a block is a rack on one and an NVLink block on the other.
HARDWARE: Final = {
    "h100": {"block": RACK, "host": HOST},
    "gb200": {"block": "example.com/nvl-block", "rack": "example.com/nvlink-domain", "host": HOST},
}


def nvlink_place(index: int) -> dict[str, str | None]:
    """What the labels of a node of the second kind are changed to."""
    return {
        RACK: None,
        "example.com/nvl-block": f"nvl-{index // _PER_RACK}",
        "example.com/nvlink-domain": f"domain-{index}",
    }


def on_hardware(name: str, annotations: Mapping[str, str]) -> Manifest:
    """A set that wants a block of one kind of hardware."""
    constraint = pack("block", topology=f"{name}-topology")
    return make.cliqueset_manifest(
        name, [role("worker", 2)], template={"topologyConstraint": constraint}, annotations=annotations
    )


# TAS21 and TAS22: what is refused -----------------------------------------------------------------

_LEVELS: Final = [("zone", ZONE), ("rack", RACK)]
#: Levels, the schedulers that are referenced, and what is wrong.
INVALID_BINDINGS: Final[dict[str, tuple[list[tuple[str, str]], list[str], str]]] = {
    "a domain twice": (
        [("zone", ZONE), ("zone", RACK)],
        [],
        'spec.levels[1].domain: Duplicate value: "zone"',
    ),
    "a key twice": (
        [("zone", ZONE), ("rack", ZONE)],
        [],
        f'spec.levels[1].key: Duplicate value: "{ZONE}"',
    ),
    "a scheduler twice": (
        _LEVELS,
        ["kai-scheduler", "kai-scheduler"],
        'spec.schedulerTopologyReferences[1].schedulerName: Duplicate value: "kai-scheduler"',
    ),
    "a scheduler that is not enabled": (
        _LEVELS,
        ["unknown-scheduler"],
        'spec.schedulerTopologyReferences[0].schedulerName: Invalid value: "unknown-scheduler": '
        "scheduler backend is not enabled in Grove",
    ),
    "a scheduler that reads no topology": (
        _LEVELS,
        ["default-scheduler"],
        'spec.schedulerTopologyReferences[0].schedulerName: Invalid value: "default-scheduler": '
        "scheduler backend does not implement topology-aware scheduling",
    ),
}


def invalid_binding(name: str) -> tuple[Manifest, str]:
    """A binding `invalid`, and what is wrong with it."""
    levels, schedulers, text = INVALID_BINDINGS[name]
    spec = {
        "levels": [{"domain": domain, "key": key} for domain, key in levels],
        "schedulerTopologyBindings": [
            {"schedulerName": scheduler, "topologyReference": f"theirs-{position}"}
            for position, scheduler in enumerate(schedulers)
        ],
    }
    return make.object_manifest(kinds.TOPOLOGY_BINDINGS, "invalid", spec), text


OLD: Final = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
_LEGACY: Final = {"topologyName": BINDING, "packDomain": "host"}
INVALID_SETS: Final[dict[str, tuple[Manifest | None, Manifest | None, Manifest | None, str]]] = {
    "packDomain of a set": (_LEGACY, None, None, OLD),
    "packDomain of a clique": (top("rack"), None, {"packDomain": "host"}, OLD),
    "packDomain of a scaling group": (top("rack"), {"packDomain": "host"}, None, OLD),
    "no pack": (
        {"topologyName": BINDING},
        None,
        None,
        "topologyConstraint must specify pack or deprecated packDomain",
    ),
    "an empty pack": (
        {"topologyName": BINDING, "pack": {}},
        None,
        None,
        "pack must specify at least one of required or preferred",
    ),
    "both words for one thing": (
        {**_LEGACY, "pack": {"required": "host"}},
        None,
        None,
        "must not set both pack.required and deprecated packDomain",
    ),
}


def invalid_set(name: str) -> tuple[Case, str]:
    """A set that is not stored, and what is wrong with it."""
    whole, of_group, of_clique, text = INVALID_SETS[name]
    case = Case(
        [role("worker", 1, of_clique)],
        0,
        (),
        {},
        groups=[group("workers", ["worker"], 1, 1, of_group)] if of_group else [],
        constraint=whole,
        replicas=0,
    )
    return case, text
