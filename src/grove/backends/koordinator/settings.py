"""The settings in `config` of the profile `koord-scheduler`, and the kinds that follow from them.

Keys: `podGroupApiVersion`, `quota`, `networkTopologyEnabled`. A wrong value is one sentence that names it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from grove.errors import InvalidConfiguration
from grove.meta import Resource, resource

#: What every release of Koordinator reads, and what the early design named instead.
PODGROUP_VERSIONS: Final = ("scheduling.sigs.k8s.io/v1alpha1", "scheduling.koordinator.sh/v1alpha1")
#: What is read of a profile's `config`.
CONFIG_KEYS: Final = frozenset({"podGroupApiVersion", "quota", "networkTopologyEnabled"})


@dataclass(frozen=True, slots=True)
class Settings:
    """A profile's configuration, checked."""

    podgroups: Resource
    quota: str = ""
    #: Whether koord-scheduler runs with its network topology on, which the API does not show.
    topology: bool = False


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The checked configuration; raises InvalidConfiguration."""
    version = config.get("podGroupApiVersion") or PODGROUP_VERSIONS[0]
    quota = config.get("quota") or ""
    topology = config.get("networkTopologyEnabled")
    if version not in PODGROUP_VERSIONS:
        _refuse("podGroupApiVersion", version, f"one of {', '.join(PODGROUP_VERSIONS)}")
    if not isinstance(quota, str):
        _refuse("quota", quota, "the name of an ElasticQuota")
    if topology not in (None, True, False):
        _refuse("networkTopologyEnabled", topology, "true or false")
    return _settings(version, quota, bool(topology))


@lru_cache(maxsize=64)
def _settings(version: str, quota: str, topology: bool) -> Settings:
    group, _, version = version.partition("/")
    return Settings(resource(group, version, "PodGroup"), quota, topology)


def _refuse(key: str, value: object, wanted: str) -> None:
    raise InvalidConfiguration(
        f"scheduler profile koordinator: config.{key} is {value!r}; it must be {wanted}"
    )
