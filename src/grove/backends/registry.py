"""Which backend a set goes to. Built-ins are listed by hand; third parties follow in registration order.

Selection is a handful of dictionary lookups and never raises: what is wrong comes back as field errors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grove.api import conditions
from grove.api.cliqueset import PodCliqueSet
from grove.api.labels import SCHEDULER_BACKEND
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, TopologyAware
from grove.backends.default import DefaultBackend
from grove.backends.kai import KaiBackend
from grove.backends.koordinator import KoordinatorBackend
from grove.backends.volcano import VolcanoBackend
from grove.backends.yunikorn import YuniKornBackend
from grove.errors import FieldError, InvalidConfiguration

#: The backends that ship with Grove, in the order in which they are asked whether a schedulerName is theirs.
BUILT_INS: Final[Mapping[str, Callable[[], Backend]]] = {
    DefaultBackend.name: DefaultBackend,
    KaiBackend.name: KaiBackend,
    KoordinatorBackend.name: KoordinatorBackend,
    VolcanoBackend.name: VolcanoBackend,
    YuniKornBackend.name: YuniKornBackend,
}

ANNOTATION: Final = "annotation"
SCHEDULER_NAME: Final = "schedulerName"
DEFAULT: Final = "default"

_NOT_ENABLED: Final = "scheduler backend is not enabled in Grove"


@dataclass(frozen=True, slots=True)
class Selection:
    """Who acts on a set, and what said so; no backend when there are errors."""

    backend: Backend | None
    source: str = ""
    errors: tuple[FieldError, ...] = ()
    #: What kind of errors they are: the reason of the set's condition `Accepted`.
    reason: str = conditions.BACKEND_NOT_ENABLED


class Registry:
    """The enabled backends in their order, and the one for sets that do not choose."""

    def __init__(self, enabled: Sequence[Backend], default: str) -> None:
        # A built-in's schedulerName is its own, whatever third parties say that they match.
        ranks = {name: rank for rank, name in enumerate(BUILT_INS)}
        ordered = sorted(enabled, key=lambda backend: ranks.get(backend.name, len(ranks)))
        self._enabled = {backend.name: backend for backend in ordered}
        if len(self._enabled) != len(enabled):
            raise InvalidConfiguration(f"scheduler.profiles: a name occurs twice in {_listed(enabled)}")
        chosen = self.find(default)
        if chosen is None:
            raise InvalidConfiguration(
                f"scheduler.defaultProfileName: {default!r} is not an enabled profile: {_listed(enabled)}"
            )
        self.default = chosen

    @classmethod
    def of(
        cls, profiles: Sequence[str], default: str, *, third_parties: Sequence[Backend] = ()
    ) -> "Registry":
        """A registry of the named profiles; a profile is named by its backend or by a schedulerName of it.

        Third parties are asked in the order in which they are given here, not in that of the profiles.
        """
        known: list[Backend] = [*(make() for make in BUILT_INS.values()), *third_parties]
        enabled: list[Backend] = []
        errors = []
        for index, profile in enumerate(profiles):
            backend = _find(profile, known) if profile else None
            if backend is None:
                said = f"{profile!r} is not a scheduler backend; known backends: {_listed(known)}"
                errors.append(FieldError(f"scheduler.profiles[{index}].name", said))
            elif backend in enabled:
                said = f"scheduler {backend.name!r} is configured twice"
                errors.append(FieldError(f"scheduler.profiles[{index}].name", said))
            else:
                enabled.append(backend)
        if _find(default, enabled) is None and default not in profiles:
            said = f"{default!r} is not an enabled profile: {_listed(enabled)}"
            errors.append(FieldError("scheduler.defaultProfileName", said))
        if errors:
            raise InvalidConfiguration("; ".join(map(str, errors)), errors)
        return cls(sorted(enabled, key=known.index), default)

    @property
    def enabled(self) -> tuple[Backend, ...]:
        return tuple(self._enabled.values())

    def get(self, name: str) -> Backend | None:
        """The enabled backend of this name: the value of a gang's label."""
        return self._enabled.get(name)

    def find(self, name: str) -> Backend | None:
        """The enabled backend that this backend name or schedulerName means."""
        return self._enabled.get(name) or _find(name, self.enabled)

    def topology_references(self, binding: ClusterTopologyBinding) -> dict[str, str]:
        """By backend that reads topology, the object of somebody else that a binding references."""
        found = {
            each.name: binding.reference_for(each.name, each.scheduler_name)
            for each in self.enabled
            if isinstance(each, TopologyAware)
        }
        return {name: reference for name, reference in found.items() if reference}

    def select(self, cliqueset: PodCliqueSet) -> Selection:
        """Who acts on the set: by annotation, else by the schedulerName of its roles, else the default."""
        if wanted := cliqueset.annotations.get(SCHEDULER_BACKEND):
            return self._chosen(wanted, ANNOTATION, f"metadata.annotations[{SCHEDULER_BACKEND}]")
        asked = [
            str(clique.spec.pod_spec.get("schedulerName") or "") for clique in cliqueset.template.cliques
        ]
        if not any(asked):
            return Selection(self.default, DEFAULT)
        path = "spec.template.cliques[{}].spec.podSpec.schedulerName"
        chosen = [self.find(name) if name else self.default for name in asked]
        unknown = [path.format(index) for index, backend in enumerate(chosen) if backend is None]
        if unknown:
            names = [name for name, backend in zip(asked, chosen, strict=True) if backend is None]
            return Selection(None, SCHEDULER_NAME, tuple(map(self._not_enabled, unknown, names)))
        mixed = [
            FieldError(
                path.format(index),
                f"is {asked[index]!r} but the first role's is {asked[0]!r}; all pods of a set have one "
                f"scheduler (an empty name means {self.default.scheduler_name!r})",
            )
            for index, backend in enumerate(chosen)
            if backend is not chosen[0]
        ]
        if mixed:
            return Selection(None, SCHEDULER_NAME, tuple(mixed), conditions.INVALID)
        return Selection(chosen[0], SCHEDULER_NAME)

    def _chosen(self, name: str, source: str, field: str) -> Selection:
        backend = self.find(name)
        return Selection(backend, source, () if backend else (self._not_enabled(field, name),))

    def _not_enabled(self, field: str, name: str) -> FieldError:
        return FieldError(field, f"{name!r}: {_NOT_ENABLED}; enabled: {_listed(self.enabled)}")


def _find(name: str, backends: Sequence[Backend]) -> Backend | None:
    by_name = (backend for backend in backends if backend.name == name)
    by_match = (backend for backend in backends if backend.matches(name))
    return next(by_name, None) or next(by_match, None)


def _listed(backends: Sequence[Backend]) -> str:
    return ", ".join(f"{backend.name} ({backend.scheduler_name})" for backend in backends)
