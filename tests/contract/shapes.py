"""The kinds that random sequences write to: which contents and changes each of them can be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.contract.objects import crd, version

Manifest = dict[str, Any]
Make = Callable[[Random], Manifest]
WORDS = ("1", "2", "3")
LETTERS = ("a", "b", "c")
PORTS = (80, 81, 82)
GROUP = "diff.example.com"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind: where it is, and how to make content (without metadata.name) and changes."""

    kind: str
    plural: str
    make: Make
    """Content of which an object can be made."""
    some: Make
    """Some of the content, as a second manager would apply."""
    change: Make
    strategic: Make
    pointers: tuple[tuple[str, Callable[[Random], object]], ...]
    status: Make | None = None
    group_version: str = ""
    scales: bool = False

    @property
    def api_version(self) -> str:
        return self.group_version or "v1"


def mapping(random: Random) -> Manifest:
    return {key: random.choice(WORDS) for key in random.sample(LETTERS, random.randint(0, 3))}


def changes(random: Random) -> Manifest:
    """As a merge patch has them: null takes a key away."""
    keys = random.sample(LETTERS, random.randint(1, 3))
    return {key: random.choice([*WORDS, None]) for key in keys}


def word(random: Random) -> str:
    return random.choice(WORDS)


def _sometimes(random: Random, share: float, content: Manifest) -> Manifest:
    return content if random.random() < share else {}


def _directed(random: Random, content: Manifest) -> Manifest:
    """Sometimes a strategic patch says to replace instead of to merge."""
    return content | _sometimes(random, 0.15, {"$patch": "replace"})


_META_POINTERS: tuple[tuple[str, Callable[[Random], object]], ...] = (
    ("/metadata/labels/a", word),
    ("/metadata/labels", mapping),
    ("/metadata/annotations/b", word),
)

# --- ConfigMap


def _config(random: Random) -> Manifest:
    return {"data": mapping(random)} | _sometimes(random, 0.2, {"binaryData": {"d": "AQI="}})


def _config_change(random: Random) -> Manifest:
    made = {"data": random.choice([changes(random), changes(random), None])}
    return (
        made
        | _sometimes(random, 0.1, {"immutable": random.choice([True, False, None])})
        | _sometimes(
            random, 0.2, {"binaryData": random.choice([None, {"a": "AQI="}, {"d": None, "e": "AA=="}])}
        )
    )


CONFIG_MAP = Shape(
    "ConfigMap",
    "configmaps",
    make=_config,
    some=_config,
    change=_config_change,
    strategic=lambda random: {"data": _directed(random, changes(random))},
    pointers=(*_META_POINTERS, ("/data/a", word), ("/data/b", word), ("/data", mapping), ("/data/c/d", word)),
)

# --- Pod


def _tolerations(random: Random) -> list[Manifest]:
    keys = random.sample(LETTERS, random.randint(0, 2))
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]


def _gates(random: Random) -> list[Manifest]:
    return [{"name": f"example.com/{key}"} for key in random.sample(LETTERS, random.randint(0, 2))]


def _container(random: Random, *, name: str = "main") -> Manifest:
    made: Manifest = {"name": name, "image": f"image:{word(random)}"}
    made |= _sometimes(random, 0.3, {"env": [{"name": "A", "value": word(random)}]})
    made |= _sometimes(random, 0.3, {"ports": [{"containerPort": random.choice(PORTS)}]})
    return made | _sometimes(
        random,
        0.3,
        # Deviation `quantities`: others than these would be written in another way.
        {"resources": {"requests": {"cpu": random.choice(["1", "500m"])}}},
    )


def _pod(random: Random) -> Manifest:
    containers = [_container(random), *([_container(random, name="side")] if random.random() < 0.2 else [])]
    spec: Manifest = {"containers": containers}
    spec["schedulingGates"] = [{"name": "example.com/gate"}, *_gates(random)]
    spec |= _sometimes(random, 0.3, {"tolerations": _tolerations(random)})
    spec |= _sometimes(random, 0.3, {"nodeSelector": mapping(random)})
    return {"spec": spec}


def _pod_some(random: Random) -> Manifest:
    if random.random() < 0.3:
        return {}
    container = {"name": "main", "image": f"image:{word(random)}"}
    return {"spec": {"containers": [container]} | _sometimes(random, 0.4, {"nodeSelector": mapping(random)})}


def _pod_change(random: Random) -> Manifest:
    options: list[Manifest] = [
        {"nodeSelector": changes(random)},
        {"tolerations": random.choice([None, _tolerations(random)])},
        {"schedulingGates": random.choice([None, [], _gates(random), [{"name": "example.com/gate"}]])},
        {"activeDeadlineSeconds": random.choice([10, 20, None])},
        {"containers": [_container(random)]},
        {"terminationGracePeriodSeconds": random.choice([1, 5])},
        {"priority": 3},
    ]
    return {"spec": random.choice(options)}


def _pod_strategic(random: Random) -> Manifest:
    options: list[Manifest] = [
        {"containers": [{"name": "main", "image": f"image:{word(random)}"}]},
        {"containers": [{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]},
        {"schedulingGates": [{"name": f"example.com/{random.choice(LETTERS)}", "$patch": "delete"}]},
        {"$setElementOrder/containers": [{"name": "main"}], "containers": [_container(random)]},
        {"tolerations": _tolerations(random)},
        {"nodeSelector": _directed(random, changes(random))},
    ]
    return {"spec": random.choice(options), "metadata": {"labels": changes(random)}}


def _conditions(random: Random) -> list[Manifest]:
    return [
        {
            "type": f"example.com/{key}",
            "status": random.choice(["True", "False"]),
            "reason": "Because",
            "message": word(random),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for key in random.sample(LETTERS, random.randint(0, 2))
    ]


def _pod_status(random: Random) -> Manifest:
    return _sometimes(random, 0.3, {"phase": "Pending", "message": word(random)}) | {
        "conditions": _conditions(random)
    }


POD = Shape(
    "Pod",
    "pods",
    make=_pod,
    some=_pod_some,
    change=_pod_change,
    strategic=_pod_strategic,
    pointers=(
        *_META_POINTERS,
        ("/spec/containers/0/image", lambda random: f"image:{word(random)}"),
        ("/spec/nodeSelector/a", word),
        # No scheduling gates: one that comes twice is refused (deviation `built-in-validation`).
    ),
    status=_pod_status,
)

# --- Service


def _ports(random: Random, least: int = 1) -> list[Manifest]:
    return [_port(random, number) for number in random.sample(PORTS, random.randint(least, 3))]


def _port(random: Random, number: int) -> Manifest:
    made: Manifest = {"name": f"p{number}", "port": number}
    made |= _sometimes(random, 0.4, {"targetPort": random.choice([8080, "web"])})
    return made | _sometimes(random, 0.3, {"protocol": "TCP"})


def _service(random: Random) -> Manifest:
    spec: Manifest = {"ports": _ports(random)}
    spec |= _sometimes(random, 0.5, {"selector": mapping(random)})
    spec |= _sometimes(random, 0.2, {"sessionAffinity": random.choice(["ClientIP", "None"])})
    # Never headless: with a selector later on, a second family is refused (deviation `built-in-validation`).
    return {"spec": spec | _sometimes(random, 0.2, {"publishNotReadyAddresses": True})}


def _service_change(random: Random) -> Manifest:
    options: list[Manifest] = [
        {"selector": random.choice([changes(random), None])},
        {"ports": _ports(random)},
        {"sessionAffinity": random.choice(["ClientIP", "None", None])},
        # Deviation `zero-values`: false would be left out.
        {"publishNotReadyAddresses": random.choice([True, None])},
        {"internalTrafficPolicy": random.choice(["Local", "Cluster", None])},
    ]
    return {"spec": random.choice(options)}


def _service_strategic(random: Random) -> Manifest:
    number = random.choice(PORTS)
    options: list[Manifest] = [
        {"selector": _directed(random, changes(random))},
        # Deviation `strategic-order`: no new item beside others.
        {"ports": [{"port": number, "$patch": "delete"}]},
        {"ports": [{"$patch": "replace"}, _port(random, number)]},
    ]
    return {"spec": random.choice(options)}


SERVICE = Shape(
    "Service",
    "services",
    make=_service,
    some=_service,
    change=_service_change,
    strategic=_service_strategic,
    pointers=(
        *_META_POINTERS,
        ("/spec/selector/a", word),
        ("/spec/selector", mapping),
        ("/spec/ports/0/targetPort", lambda random: random.choice([9090, "web"])),
        ("/spec/ports", _ports),
    ),
    status=lambda random: {"conditions": _conditions(random)},
)

# --- a custom kind

_TEXT = {"type": "string"}
_ROLE = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _TEXT,
        "count": {"type": "integer", "default": 1},
        "tags": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "note": _TEXT,
    },
}
_SPEC = {
    "replicas": {"type": "integer", "default": 2, "minimum": 0},
    "policy": {"type": "string", "default": "Strict", "enum": ["Strict", "Loose"]},
    "roles": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": _ROLE,
    },
    "names": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
    "order": {"type": "array", "items": _TEXT},
    "free": {"type": "object", "additionalProperties": _TEXT},
    "fixed": {"type": "object", "additionalProperties": _TEXT, "x-kubernetes-map-type": "atomic"},
    "inner": {
        "type": "object",
        "default": {},
        "properties": {"size": {"type": "integer", "default": 7}, "hint": {**_TEXT, "nullable": True}},
    },
    "port": {"x-kubernetes-int-or-string": True},
}
_STATUS = {
    "ready": {"type": "integer"},
    "selector": _TEXT,
    "conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status"],
            "properties": dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), _TEXT),
        },
    },
}


def part_crd() -> Manifest:
    """A custom kind with lists that are maps, sets and neither, defaults, status and scale."""
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.ready",
        "labelSelectorPath": ".status.selector",
    }
    properties = {
        "spec": {"type": "object", "properties": _SPEC},
        "status": {"type": "object", "properties": _STATUS},
    }
    return crd(
        "parts", GROUP, version("v1", properties, subresources={"status": {}, "scale": scale}), kind="Part"
    )


def _role(random: Random, name: str) -> Manifest:
    made: Manifest = {"name": name} | _sometimes(random, 0.5, {"count": random.randint(1, 3)})
    made |= _sometimes(random, 0.3, {"note": word(random)})
    return made | _sometimes(random, 0.4, {"tags": _letters(random)})


def _letters(random: Random) -> list[str]:
    return random.sample(LETTERS, random.randint(0, 3))


def _roles(random: Random) -> list[Manifest]:
    """Now and then a name comes twice, which is refused."""
    twice = ["a"] if random.random() < 0.05 else []
    return [_role(random, name) for name in [*_letters(random), *twice]]


_FIELDS: dict[str, Callable[[Random], object]] = {
    "replicas": lambda random: random.choice([0, 1, 5]),
    "policy": lambda random: random.choice(["Strict", "Loose", "Loose", "Wrong"]),
    "roles": _roles,
    "names": _letters,
    "order": lambda random: [word(random) for _ in range(random.randint(0, 3))],
    "free": mapping,
    "fixed": mapping,
    "inner": lambda random: _sometimes(random, 0.5, {"size": random.randint(1, 3)}) | {"hint": word(random)},
    "port": lambda random: random.choice([80, "web"]),
    "unknown": word,
}


def _part(random: Random) -> Manifest:
    return {
        "spec": {name: _FIELDS[name](random) for name in random.sample(list(_FIELDS), random.randint(0, 5))}
    }


def _part_applied(random: Random) -> Manifest:
    """Deviation `apply-empty-lists`: something, and no keyed list without items."""
    spec = _part(random)["spec"]
    keyed = ("names", "roles")
    return {
        "spec": {"port": 80} | {name: value for name, value in spec.items() if value or name not in keyed}
    }


def _part_change(random: Random) -> Manifest:
    names = random.sample(list(_FIELDS), random.randint(1, 3))
    spec = {name: None if random.random() < 0.2 else _FIELDS[name](random) for name in names}
    if isinstance(spec.get("free"), dict):
        spec["free"] = changes(random)
    return {"spec": spec}


PART = Shape(
    "Part",
    "parts",
    make=_part_applied,
    some=_part_applied,
    change=_part_change,
    strategic=_part_change,
    pointers=(
        *_META_POINTERS,
        ("/spec/free/a", word),
        ("/spec/names/-", lambda random: random.choice(LETTERS)),
        ("/spec/roles/0", lambda random: _role(random, random.choice(LETTERS))),
        ("/spec/roles/0/note", word),
        ("/spec/fixed", mapping),
        ("/spec/inner/hint", lambda random: random.choice([None, "1"])),
        ("/spec/replicas", lambda random: random.choice([1, 2, -1, "many"])),
    ),
    status=lambda random: (
        {"conditions": _conditions(random)} | _sometimes(random, 0.4, {"ready": random.randint(0, 3)})
    ),
    group_version=f"{GROUP}/v1",
    scales=True,
)

KINDS = (CONFIG_MAP, POD, SERVICE, PART)
