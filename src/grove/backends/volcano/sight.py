"""What Grove sees of a Volcano installation: states of queues, tiers of HyperNodes, the plugin for topology.

Volcano is silent about most of what is wrong here: a gang of an unknown queue is dropped from its snapshot,
one of a queue that is not Open waits for resources that are there, and a topology constraint that names no
tier, or meets a scheduler without the plugin, is ignored. Nothing follows from what is not known (None).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import yaml

from grove.backends.base import Context, ObservedResource, Precondition
from grove.errors import InvalidConfiguration
from grove.meta import Manifest, Resource, resource

GROUP: Final = "scheduling.volcano.sh"
QUEUES: Final = resource(GROUP, "v1beta1", "Queue", namespaced=False)
HYPERNODES: Final = resource("topology.volcano.sh", "v1alpha1", "HyperNode", namespaced=False)
CONFIG_MAPS: Final = resource("", "v1", "ConfigMap")

PLUGIN: Final = "network-topology-aware"
OPEN: Final = "Open"
DEFAULT_CONFIG_MAP: Final = "volcano-system/volcano-scheduler-configmap"

#: What is read of the profile's `config`.
CONFIG_KEYS: Final = frozenset({"queue", "networkTopology", "schedulerConfigMap"})
AUTO, ENABLED, DISABLED = "Auto", "Enabled", "Disabled"

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_LIMIT: Final = 253


@dataclass(frozen=True, slots=True)
class Settings:
    """The profile's configuration, checked."""

    queue: str = ""
    topology: str = AUTO
    namespace: str = ""
    config_map: str = ""

    @property
    def place(self) -> str:
        return f"{self.namespace}/{self.config_map}"


def settings(config: Mapping[str, Any]) -> Settings:
    """The configuration of the profile `volcano`; raises InvalidConfiguration."""
    queue = config.get("queue") or ""
    if queue and not (isinstance(queue, str) and is_subdomain(queue)):
        raise InvalidConfiguration(
            f"scheduler profile volcano: config.queue is {queue!r}; it must be the name of a Volcano queue"
        )
    topology = config.get("networkTopology") or AUTO
    if topology not in (AUTO, ENABLED, DISABLED):
        raise InvalidConfiguration(
            f"scheduler profile volcano: config.networkTopology is {topology!r}; "
            f"it must be {AUTO}, {ENABLED} or {DISABLED}"
        )
    place = config.get("schedulerConfigMap") or DEFAULT_CONFIG_MAP
    namespace, _, name = place.partition("/") if isinstance(place, str) else ("", "", "")
    if not (is_subdomain(namespace) and is_subdomain(name)):
        raise InvalidConfiguration(
            f"scheduler profile volcano: config.schedulerConfigMap is {place!r}; it must be namespace/name"
        )
    return Settings(queue, topology, namespace, name)


def is_subdomain(name: str) -> bool:
    """Whether Volcano takes it as the name of a queue."""
    return len(name) <= _SUBDOMAIN_LIMIT and _SUBDOMAIN.fullmatch(name) is not None


def observes(context: Context) -> tuple[ObservedResource, ...]:
    """What must be watched for the sight below."""
    chosen = settings(context.config)
    return (
        ObservedResource(QUEUES),
        ObservedResource(HYPERNODES),
        ObservedResource(CONFIG_MAPS, chosen.namespace, chosen.config_map),
    )


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of the installation; None stands for what is not."""

    #: The state of each queue by its name.
    queues: Mapping[str, str] | None = None
    #: The tier of each tier name that some HyperNode carries; a lower tier is a smaller domain.
    tiers: Mapping[str, int] | None = None
    #: Which HyperNode has two parents: as long as there is one, Volcano places no gang with a topology.
    tangled: str = ""
    #: Whether the scheduler's configuration was found, and if so, whether it names the plugin.
    configured: bool | None = None
    plugin: bool | None = None
    #: The states of the queues as facts: whoever compares preconditions notices when one changes.
    facts: tuple[Precondition, ...] = ()
    #: The most that each queue gives out, by the names of queue and resource; only what somebody limited.
    capabilities: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def look(observed: Mapping[Resource, tuple[Manifest, ...]]) -> Sight:
    """The installation as the observed objects show it."""
    queues = {_name(each): _state(each) for each in observed[QUEUES]} if QUEUES in observed else None
    texts = [_texts(each) for each in observed.get(CONFIG_MAPS, ())]
    known = CONFIG_MAPS in observed
    return Sight(
        queues,
        _tiers(observed[HYPERNODES]) if HYPERNODES in observed else None,
        _tangled(observed.get(HYPERNODES, ())),
        bool(texts) if known else None,
        any(_names_plugin(text) for each in texts for text in each) if texts else None,
        tuple(Precondition(f"queue {name}: {state or 'no state'}") for name, state in (queues or {}).items()),
        {_name(each): _capability(each) for each in observed.get(QUEUES, ())},
    )


def queue_problem(queue: str, sight: Sight) -> str:
    """Why Volcano would leave the gangs of a queue alone; empty when nothing is known against it."""
    if sight.queues is None:
        return ""
    state = sight.queues.get(queue)
    if state is None:
        return (
            f"Volcano has no queue {queue!r} and would silently ignore the gang; "
            f"create the queue, or name another one"
        )
    if state != OPEN:
        found = f"is {state}" if state else "has no state"
        return (
            f"Volcano's queue {queue!r} {found} and takes no gangs until it is Open; open it, "
            "and see that vc-controller-manager runs, which keeps the state of queues"
        )
    return ""


def limit_of(queue: str, asked: str, sight: Sight) -> str:
    """The capability of a queue in the resources that are asked for; empty where nobody limited them."""
    limits = sight.capabilities.get(queue) or {}
    concerned = set(asked.split(", ")) if asked else limits.keys()
    return ", ".join(f"{name} {limits[name]}" for name in sorted(limits) if name in concerned)


def plugin_problem(chosen: Settings, sight: Sight) -> str:
    """Why nobody can rely on topology; empty when the plugin is on, or the profile says so."""
    if chosen.topology == ENABLED or sight.plugin:
        return ""
    remedy = "set networkTopology: Enabled in the profile's configuration if the plugin is on"
    if sight.configured is None:
        return (
            f"Grove has not seen the ConfigMap {chosen.place}, so it does not know whether Volcano's plugin "
            f"{PLUGIN} is on; let Grove read it, or {remedy}"
        )
    if not sight.configured:
        return (
            f"there is no ConfigMap {chosen.place}, so Grove does not know whether Volcano's plugin {PLUGIN} "
            f"is on; name the right one as schedulerConfigMap in the profile's configuration, or {remedy}"
        )
    return (
        f"the plugin {PLUGIN} is not in the ConfigMap {chosen.place}, and Volcano ignores topology without "
        "it; add it to the scheduler's plugins"
    )


def _tiers(hypernodes: tuple[Manifest, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in hypernodes:
        spec = each.get("spec")
        name, tier = (spec.get("tierName"), spec.get("tier")) if isinstance(spec, dict) else (None, None)
        if isinstance(name, str) and name and isinstance(tier, int):
            found[name] = max(tier, found.get(name, tier))
    return found


def _tangled(hypernodes: tuple[Manifest, ...]) -> str:
    parents: dict[str, str] = {}
    for each in hypernodes:
        spec = each.get("spec")
        members = spec.get("members") if isinstance(spec, dict) else None
        for member in members if isinstance(members, list) else ():
            child = _child(member)
            if child and parents.setdefault(child, _name(each)) != _name(each):
                return (
                    f"HyperNode {child!r} is a member of both {parents[child]!r} and {_name(each)!r}, and "
                    "Volcano places no gang with a topology until it is in one of them only;"
                    " delete the wrong one"
                )
    return ""


def _child(member: object) -> str:
    if not isinstance(member, dict) or member.get("type") != "HyperNode":
        return ""
    selector = member.get("selector")
    exact = selector.get("exactMatch") if isinstance(selector, dict) else None
    return str(exact.get("name") or "") if isinstance(exact, dict) else ""


def _texts(config_map: Manifest) -> list[str]:
    data = config_map.get("data")
    return [str(text) for text in data.values()] if isinstance(data, dict) else []


@lru_cache(maxsize=16)
def _names_plugin(text: str) -> bool:
    """Whether a scheduler configuration lists the plugin; one that is no YAML starts no scheduler either."""
    try:
        conf = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    tiers = conf.get("tiers") if isinstance(conf, dict) else None
    for tier in tiers if isinstance(tiers, list) else ():
        plugins = tier.get("plugins") if isinstance(tier, dict) else None
        for plugin in plugins if isinstance(plugins, list) else ():
            if isinstance(plugin, dict) and plugin.get("name") == PLUGIN:
                return True
    return False


def _name(manifest: Manifest) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _capability(queue: Manifest) -> dict[str, str]:
    spec = queue.get("spec")
    found = spec.get("capability") if isinstance(spec, dict) else None
    return {str(name): str(amount) for name, amount in found.items()} if isinstance(found, dict) else {}


def _state(queue: Manifest) -> str:
    status = queue.get("status")
    return str(status.get("state") or "") if isinstance(status, dict) else ""
