"""Random sequences of writes to one object, the same for the same seed.

A sequence knows what it asks and not what the answer should be: the answer of one server is held against
that of another. It asks for mistakes too (a stale version, a path that is not there, a value that is not
allowed), because refusals have to agree as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.contract import shapes
from tests.contract.contract import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC
from tests.contract.shapes import KINDS, Manifest, Shape

NAME = "x"
LONGEST = 12
MANAGERS = ("ann", "bob")
FINALIZERS = ("example.com/a", "example.com/b")
WORDS = shapes.WORDS


@dataclass(frozen=True, slots=True)
class Step:
    """One request for the object of the sequence."""

    verb: str
    body: object = None
    type: str = JSON
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    onto_live: bool = False
    """Whether the body is merged into what the server shows, and the whole sent back."""

    def __str__(self) -> str:
        asked = " ".join(f"{name}={value}" for name, value in self.query.items())
        where = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb}{where} {self.type if self.verb == 'PATCH' else ''} {asked} {self.body}"


@dataclass(frozen=True, slots=True)
class Sequence:
    """What is asked about one object of a kind."""

    seed: int
    shape: Shape
    steps: tuple[Step, ...]


def sequence(seed: int) -> Sequence:
    """The sequence of a seed; the kinds take turns."""
    random = Random(seed)
    shape = KINDS[seed % len(KINDS)]
    first = _create if random.random() < 0.6 else _apply
    makers = [maker for maker, weight in _WEIGHTS.items() for _ in range(weight)]
    rest = [random.choice(makers) for _ in range(random.randint(3, LONGEST - 1))]
    return Sequence(seed, shape, tuple(maker(random, shape) for maker in [first, *rest]))


def _create(random: Random, shape: Shape) -> Step:
    made = _whole(shape, shape.make(random))
    made["metadata"] |= _meta(random)
    return Step("POST", made, query=_options(random))


def _apply(random: Random, shape: Shape) -> Step:
    """Each manager wants some of the fields: what it wanted before and leaves out now is dropped."""
    made = _whole(shape, shape.make(random) if random.random() < 0.5 else shape.some(random))
    made["metadata"] |= _meta(random)
    query = {"fieldManager": random.choice(MANAGERS), "force": random.choice(["true", "false"])}
    return Step("PATCH", made, APPLY, query=query | _dry(random))


def _apply_status(random: Random, shape: Shape) -> Step:
    # Deviation `create-on-update`: the status of a Service that is not there.
    if shape.status is None or shape.kind == "Service":
        return _apply(random, shape)
    made = _whole(shape, {"status": shape.status(random)})
    query = {"fieldManager": random.choice(MANAGERS), "force": random.choice(["true", "false"])}
    return Step("PATCH", made, APPLY, "status", query)


def _merge(random: Random, shape: Shape) -> Step:
    return Step("PATCH", shape.change(random), MERGE, query=_options(random))


def _merge_meta(random: Random, _: Shape) -> Step:
    metadata: Manifest = {}
    for name in ("labels", "annotations"):
        if random.random() < 0.6:
            metadata[name] = random.choice([None, shapes.changes(random), shapes.changes(random)])
    if random.random() < 0.1:
        metadata["resourceVersion"] = "1"
    return Step("PATCH", {"metadata": metadata}, MERGE, query=_options(random))


def _finalizers(random: Random, _: Shape) -> Step:
    wanted = random.choice([None, [], [FINALIZERS[0]], list(FINALIZERS)])
    return Step("PATCH", {"metadata": {"finalizers": wanted}}, MERGE, query=_options(random))


def _strategic(random: Random, shape: Shape) -> Step:
    """Custom kinds answer 415, which is also an answer."""
    return Step("PATCH", shape.strategic(random), STRATEGIC, query=_options(random))


def _json_patch(random: Random, shape: Shape) -> Step:
    operations = []
    for _ in range(random.randint(1, 3)):
        path, value = random.choice(shape.pointers)
        op = random.choice(["add", "add", "replace", "remove", "test"])
        operations.append({"op": op, "path": path} | ({} if op == "remove" else {"value": value(random)}))
    return Step("PATCH", operations, JSON_PATCH, query=_options(random))


def _put(random: Random, shape: Shape) -> Step:
    return Step("PUT", shape.change(random), query=_options(random), onto_live=True)


def _status(random: Random, shape: Shape) -> Step:
    if shape.status is None:
        return _merge(random, shape)
    return Step("PATCH", {"status": shape.status(random)}, MERGE, "status", _options(random))


def _scale(random: Random, shape: Shape) -> Step:
    if not shape.scales:
        return _merge_meta(random, shape)
    patch = {"spec": {"replicas": random.choice([1, 3, 5, -1])}}  # Deviation `zero-values`: not 0.
    return Step("PATCH", patch, MERGE, "scale", _options(random))


def _delete(random: Random, _: Shape) -> Step:
    options = random.choice(
        [None, None, {"propagationPolicy": "Background"}, {"preconditions": {"uid": "no"}}]
    )
    return Step("DELETE", options)


_WEIGHTS: dict[Callable[[Random, Shape], Step], int] = {
    _create: 1,
    _apply: 6,
    _apply_status: 1,
    _merge: 4,
    _merge_meta: 2,
    _finalizers: 2,
    _strategic: 3,
    _json_patch: 3,
    _put: 1,
    _status: 2,
    _scale: 1,
    _delete: 1,
}


def _whole(shape: Shape, content: Manifest) -> Manifest:
    return {"apiVersion": shape.api_version, "kind": shape.kind, "metadata": {"name": NAME}, **content}


def _meta(random: Random) -> Manifest:
    meta: Manifest = {}
    for name in ("labels", "annotations"):
        if random.random() < 0.5:
            meta[name] = shapes.mapping(random)
    if random.random() < 0.2:
        meta["finalizers"] = random.sample(FINALIZERS, random.randint(1, 2))
    return meta


def _options(random: Random) -> Manifest:
    named = {"fieldManager": random.choice([*MANAGERS, "eve"])} if random.random() < 0.5 else {}
    return named | _dry(random)


def _dry(random: Random) -> dict[str, Any]:
    return {"dryRun": "All"} if random.random() < 0.05 else {}
