"""Ask a cluster for what scheduler backends need there, as the operator would ask. Writes nothing: probes are
dry runs."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from grove.api import kinds
from grove.backends.base import Backend, ObservedResource, Precondition
from grove.backends.default import DefaultBackend
from grove.backends.default.generation import MISCONFIGURED, detect, misconfigured
from grove.backends.registry import Registry
from grove.controllers.schedulers.observation import Observation
from grove.controllers.schedulers.remarks import Remarks
from grove.controllers.schedulers.scheduling import Scheduling
from grove.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound
from grove.kube.client import Client
from grove.meta import Manifest, Resource
from grove.runtime.cache import Cache
from grove.runtime.clock import SystemClock
from grove.runtime.metrics import Metrics

#: What the dry run of a pod that belongs to a gang showed.
KEPT: Final = "kept"
DROPPED: Final = "dropped"


@dataclass(frozen=True, slots=True)
class NativeGangs:
    """What Kubernetes' own gang API is in a cluster; blank where there is none."""

    version: str = ""
    #: Which of the fields behind feature gates the server keeps.
    fields: tuple[str, ...] = ()
    #: The field by which a pod names its gang, and whether the server keeps it; blank if we may not try.
    link: str = ""
    link_kept: str = ""
    #: Why the API that is served does not work.
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a backend finds in a cluster."""

    #: What it needs, and what of it the cluster lacks.
    preconditions: Sequence[Precondition]
    #: What the installed release of its scheduler lacks; see `Traits.shortcomings`.
    shortcomings: Sequence[str] = ()
    #: Whether fields could not be tried, which may be what makes the release look older than it is.
    unsure: bool = False


async def surroundings_of(backend: Backend, client: Client, configs: dict[str, Manifest]) -> Surroundings:
    """What an operator with this backend would find out about the cluster."""
    scheduling = await discovered(Registry([backend], backend.name), client, configs)
    seen = replace(
        scheduling.context(backend), observed=await _observed(scheduling.observed_by(backend), client)
    )
    shortcomings = scheduling.traits(backend).shortcomings
    return Surroundings(backend.preconditions(seen), shortcomings, scheduling.unsure)


async def preconditions_of(
    backend: Backend, client: Client, configs: dict[str, Manifest]
) -> Sequence[Precondition]:
    """What a backend needs, and what of it the cluster lacks."""
    return (await surroundings_of(backend, client, configs)).preconditions


async def native_gangs(client: Client) -> NativeGangs:
    """The gang API that the cluster serves, tried out by dry runs."""
    default = DefaultBackend()
    cluster = (await discovered(Registry([default], default.name), client, {})).cluster
    if misconfigured(cluster):
        return NativeGangs(problem=MISCONFIGURED)
    generation = detect(cluster)
    if generation is None:
        return NativeGangs()
    link = "schedulingGroup" if generation.has_podgroups else "workloadRef"
    kept = await _keeps(client, link)
    fields = tuple(sorted({each.rpartition(".")[2] for each in cluster.fields}))
    return NativeGangs(generation.version, fields, link, kept)


async def _keeps(client: Client, link: str) -> str:
    """Whether a pod keeps the field that names its gang; with a gate off it is dropped without a word."""
    named = (
        {"podGroupName": "grove-probe"}
        if link == "schedulingGroup"
        else {"name": "grove-probe", "podGroup": "a"}
    )
    pod: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "grove-probe", "namespace": "default"},
        "spec": {
            "schedulingGates": [{"name": "grove.io/probe"}],
            "containers": [{"name": "probe", "image": "probe"}],
            link: named,
        },
    }
    try:
        answer = await client.create(kinds.PODS, pod, type=dict, dry_run=True)
    except (Forbidden, Invalid, BadRequest, AlreadyExists):
        return ""
    return KEPT if answer.get("spec", {}).get(link) else DROPPED


async def discovered(
    registry: Registry,
    client: Client,
    configs: dict[str, Manifest],
    *,
    external: frozenset[str] = frozenset(),
) -> Scheduling:
    """What an operator with these backends would find out about the cluster; nothing of it runs."""
    clock = SystemClock()
    observation = Observation(client, clock, random.Random(0))
    cache = Cache(client, clock)
    remarks = Remarks(client, cache, clock, random.Random(0))
    scheduling = Scheduling(
        registry, client, cache, Metrics(), observation, remarks, configs=configs, external=external
    )
    await scheduling.discover()
    return scheduling


async def _observed(
    asked: Sequence[ObservedResource], client: Client
) -> dict[Resource, tuple[Manifest, ...]]:
    """What an operator would see of objects that others make; what we may not read stays unknown."""
    found: dict[Resource, tuple[Manifest, ...]] = {}
    for each in asked:
        fields = f"metadata.name={each.name}" if each.name else ""
        try:
            items = await client.list_all(each.resource, type=dict, namespace=each.namespace, fields=fields)
        except (Forbidden, NotFound):
            continue
        found[each.resource] = (*found.get(each.resource, ()), *items)
    return found
