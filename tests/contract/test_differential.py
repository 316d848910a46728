"""The embedded server and a real one are asked the same, at random, and answer the same.

Needs the real one that GROVE_CONTRACT_KUBECONFIG names (`make contract` starts it). The seeds are fixed;
GROVE_DIFFERENTIAL_SEEDS=1000 tries more of them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import pytest
from tests.contract import catalogue
from tests.contract.conftest import KUBECONFIG, MINOR
from tests.contract.contract import Answer, Contract, Manifest, Server, contract_on
from tests.contract.sequences import NAME, Sequence, Step, sequence
from tests.contract.serving import BARE, served
from tests.contract.shapes import part_crd

from grove.kube import config

SEEDS = int(os.environ.get("GROVE_DIFFERENTIAL_SEEDS", "60"))
ABSENT = "(absent)"
NODE_TROUBLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TIMES = ("creationTimestamp", "deletionTimestamp", "lastTransitionTime")


@dataclass(frozen=True, slots=True)
class Pair:
    """The two servers that are compared."""

    embedded: Server
    real: Server


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    path = os.environ.get(KUBECONFIG)
    if not path:
        pytest.skip(f"${KUBECONFIG} names no real API server to compare with; `make contract` starts one")
    minor = os.environ.get(MINOR, catalogue.MAIN)
    folder = tmp_path_factory.mktemp("differential")
    with served(folder / "kubeconfig", replace(BARE, kubernetes=minor)) as embedded:
        both = Pair(embedded.server(), Server(config.load(path), minor))
        for server in (both.embedded, both.real):
            asyncio.run(_define(server))
        yield both


async def _define(server: Server) -> None:
    async with contract_on(server, _namespace()) as contract:
        await contract.define(part_crd())


def _namespace() -> str:
    return f"differential-{secrets.token_hex(4)}"


@pytest.mark.real
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_sequence_of_writes_is_answered_as_by_a_real_server(pair: Pair, seed: int) -> None:
    asked = sequence(seed)
    embedded, real = asyncio.run(_both(pair, asked))
    asking = [f"step {number}, {step}" for number, step in enumerate(asked.steps)]
    for step, mine, theirs in zip([*asking, "the last state"], embedded, real, strict=True):
        assert not list(differences(mine, theirs)), f"seed {seed}, {asked.shape.kind}: {step}"


async def _both(pair: Pair, asked: Sequence) -> tuple[list[object], list[object]]:
    namespace = _namespace()
    embedded, real = await asyncio.gather(
        _told(pair.embedded, asked, namespace), _told(pair.real, asked, namespace)
    )
    return embedded, real


async def _told(server: Server, asked: Sequence, namespace: str) -> list[object]:
    """What a server answers to each step, and what it shows in the end."""
    async with contract_on(server, namespace) as contract:
        path = contract.path(asked.shape.plural, asked.shape.group_version)
        told: list[object] = []
        version = ""
        for step in asked.steps:
            answer = await _ask(contract, path, step)
            now = (await contract.get(f"{path}/{NAME}")).meta.get("resourceVersion", "")
            # Deviation `custom-defaults`: a write that changes nothing can store defaults of a custom object.
            changed = now != version and not asked.shape.group_version
            told.append({"answer": observed(answer), "changed the object": changed})
            version = now
        told.append(observed(await contract.get(f"{path}/{NAME}")))
        # A finalizer that stays would keep the namespace.
        await contract.merge(f"{path}/{NAME}", {"metadata": {"finalizers": None}})
        return told


async def _ask(contract: Contract, path: str, step: Step) -> Answer:
    where = path if step.verb == "POST" else f"{path}/{NAME}"
    where += f"/{step.subresource}" if step.subresource else ""
    body = step.body
    if step.onto_live and isinstance(body, dict):
        body = _merged((await contract.get(where)).body, body)
    return await contract.send(step.verb, where, body, type=step.type, **step.query)


def _merged(target: Manifest, patch: Manifest) -> Manifest:
    result = dict(target)
    for name, value in patch.items():
        below = result.get(name)
        if isinstance(below, dict) and isinstance(value, dict):
            result[name] = _merged(below, value)
        else:
            result[name] = value
    return result


def observed(answer: Answer) -> Manifest:
    """The code and reason of an answer with the object, without what no two servers have in common."""
    code = answer.refused
    body = answer.body
    if body.get("kind") == "Status":
        return {"code": code}
    return {"code": code, "object": normal(body)}


def normal(obj: Manifest) -> Manifest:
    """An object without identity, time and allocated addresses."""
    made = deepcopy(obj)
    meta = made.get("metadata") or {}
    for name in ("uid", "resourceVersion"):
        meta.pop(name, None)
    if "managedFields" in meta:
        meta["managedFields"] = {_manager(entry): entry.get("fieldsV1") for entry in meta["managedFields"]}
    spec = made.get("spec") or {}
    if spec.get("clusterIP") not in (None, "None") and made.get("kind") == "Service":
        spec |= {"clusterIP": "ADDRESS", "clusterIPs": ["ADDRESS" for _ in spec["clusterIPs"]]}
    # The real control plane runs without the admission that adds them: it has no node lifecycle.
    if tolerations := [found for found in spec.get("tolerations") or () if found["key"] not in NODE_TROUBLE]:
        spec["tolerations"] = tolerations
    else:
        spec.pop("tolerations", None)
    return _timeless(made)


def _manager(entry: Manifest) -> str:
    """Who owns the fields of an entry, and how; there is one entry for each."""
    names = ("manager", "operation", "subresource", "apiVersion", "fieldsType")
    return " ".join(str(entry.get(name, "-")) for name in names)


def _timeless(value: Manifest) -> Manifest:
    """The same with every time that the server may have written replaced."""

    def walk(found: object) -> object:
        if isinstance(found, dict):
            return {
                name: "TIME" if name in TIMES and below else walk(below)
                for name, below in found.items()
                # Deviation `zero-values`: Go writes a null for this time, and gives it an owner.
                if name != "f:lastProbeTime" and (name != "lastProbeTime" or below is not None)
            }
        if isinstance(found, list):
            return [walk(below) for below in found]
        return found

    return {name: walk(below) for name, below in value.items()}


def differences(embedded: object, real: object, path: str = "") -> Iterator[str]:
    """Each place where two answers differ."""
    if isinstance(embedded, dict) and isinstance(real, dict):
        for name in sorted(embedded.keys() | real.keys()):
            yield from differences(embedded.get(name, ABSENT), real.get(name, ABSENT), f"{path}.{name}")
    elif embedded != real or type(embedded) is not type(real):
        yield f"{path}: embedded {embedded}, real {real}"
