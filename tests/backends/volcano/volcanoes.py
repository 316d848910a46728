"""Volcano installations as an operator sees them: queues, HyperNodes, the scheduler's configuration."""

from dataclasses import replace

from tests.backends.clusters import on

from grove.backends.base import Cluster, Context
from grove.backends.volcano.objects import SUBGROUPS_FIELD, TIER_NAME_FIELD
from grove.backends.volcano.sight import CONFIG_MAPS, HYPERNODES, QUEUES
from grove.meta import Manifest, Resource

RACK, ZONE, HOST = "example.com/rack", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TIERS = {HOST: 1, RACK: 2, ZONE: 3}
_SERVED = {
    "v1": frozenset({"configmaps"}),
    "scheduling.volcano.sh/v1beta1": frozenset({"podgroups", "queues"}),
    "topology.volcano.sh/v1alpha1": frozenset({"hypernodes"}),
}
V113 = Cluster(served=_SERVED)
V114 = Cluster(served=_SERVED, fields=frozenset({SUBGROUPS_FIELD, TIER_NAME_FIELD}))
PLUGINS = ("gang", "network-topology-aware")


def queue(name: str, state: str | None = "Open", **capability: str) -> Manifest:
    status: Manifest = {"status": {"state": state}} if state else {}
    spec = {"weight": 1, **({"capability": capability} if capability else {})}
    return {"kind": "Queue", "metadata": {"name": name}, "spec": spec, **status}


def hypernode(name: str, tier: int, tier_name: str) -> Manifest:
    return {"kind": "HyperNode", "metadata": {"name": name}, "spec": {"tier": tier, "tierName": tier_name}}


def config_map(*plugins: str) -> Manifest:
    listed = "".join(f"  - name: {each}\n" for each in plugins)
    return {
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "data": {"volcano-scheduler.conf": f'actions: "enqueue, allocate"\ntiers:\n- plugins:\n{listed}'},
    }


def seen(
    *,
    queues: tuple[Manifest, ...] = (queue("default"), queue("q")),
    tiers: dict[str, int] | None = None,
    config: tuple[Manifest, ...] = (config_map(*PLUGINS),),
) -> dict[Resource, tuple[Manifest, ...]]:
    """What is observed of an installation that is as it should be, unless told otherwise."""
    known = TIERS if tiers is None else tiers
    hypernodes = tuple(hypernode(f"h{tier}", tier, name) for name, tier in known.items())
    return {QUEUES: queues, HYPERNODES: hypernodes, CONFIG_MAPS: config}


def volcano(
    cluster: Cluster = V114,
    observed: dict[Resource, tuple[Manifest, ...]] | None = None,
    **config: object,
) -> Context:
    """The context of an installation with this profile configuration."""
    return replace(on(cluster, **config), observed=seen() if observed is None else observed)
