"""Whether the scheduler that a set or a topology binding names is one that this operator can use."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from grove.admission.naming import CLIQUES
from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.config import BACKEND_OF
from grove.api.topology import ClusterTopologyBinding
from grove.errors import FieldError

_SCHEDULER_NAME: Final = f"{CLIQUES}.spec.podSpec.schedulerName"
_ANNOTATION: Final = f"metadata.annotations[{labels.SCHEDULER_BACKEND}]"


class Named(Protocol):
    """The part of a backend that decides whose a set is."""

    name: ClassVar[str]

    def matches(self, scheduler_name: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Schedulers:
    """The enabled backends, in registration order, and which one is used when a set names none."""

    enabled: Sequence[Named]
    default: str = "default"
    #: Names of the backends that can honour pack constraints.
    topology_aware: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(backend.name for backend in self.enabled)

    def backend_for(self, scheduler_name: str) -> str | None:
        """The enabled backend of pods with this schedulerName; a blank name means the default."""
        if not scheduler_name:
            return self.default if self.default in self.names else None
        return next((backend.name for backend in self.enabled if backend.matches(scheduler_name)), None)


def scheduler_names(cliqueset: PodCliqueSet) -> tuple[str, ...]:
    """The schedulerNames of the cliques, in their order; blank where a clique names none."""
    return tuple(
        str(clique.spec.pod_spec.get("schedulerName") or "") for clique in cliqueset.template.cliques
    )


def validate_schedulers(cliqueset: PodCliqueSet, schedulers: Schedulers) -> Iterator[FieldError]:
    """The set's annotation, else the name that its cliques share, must lead to an enabled backend."""
    chosen = cliqueset.annotations.get(labels.SCHEDULER_BACKEND, "")
    enabled = ", ".join(schedulers.names)
    if chosen and chosen not in schedulers.names:
        yield FieldError(
            _ANNOTATION, f"scheduler backend {chosen!r} is not enabled in Grove; enabled are {enabled}"
        )
    asked = dict.fromkeys(scheduler_names(cliqueset))
    backends = {name: schedulers.backend_for(name) for name in asked}
    if len(set(backends.values())) > 1 or (None in backends.values() and len(asked) > 1):
        listed = ", ".join(name or "(none)" for name in asked)
        yield FieldError(
            _SCHEDULER_NAME, f"the schedulerName for all pods have to be the same; found {listed}"
        )
    elif not chosen and None in backends.values():
        name = next(iter(asked)) or schedulers.default
        yield FieldError(
            _SCHEDULER_NAME,
            f"schedulerName must be an enabled scheduler backend; {name!r} is not enabled in "
            "OperatorConfiguration; "
            f"enabled are {enabled}",
        )


def validate_topology_binding(
    binding: ClusterTopologyBinding, *, schedulers: Schedulers | None = None
) -> list[FieldError]:
    """Everything wrong with a topology binding; without `schedulers`, what can be said of it alone."""
    errors: list[FieldError] = []
    for field in ("domain", "key"):
        values = [getattr(level, field) for level in binding.spec.levels]
        seen: set[str] = set()
        for index, value in enumerate(values):
            if value in seen:
                errors.append(
                    FieldError(f"spec.levels[{index}].{field}", f"must be unique; {value!r} is used twice")
                )
            seen.add(value)
    if not binding.spec.levels:
        errors.append(FieldError("spec.levels", "at least one level must be defined"))
    errors += _references(binding, schedulers)
    return errors


def _references(binding: ClusterTopologyBinding, schedulers: Schedulers | None) -> Iterator[FieldError]:
    bindings = binding.spec.scheduler_topology_bindings
    counts = Counter(each.scheduler_name for each in bindings)
    for index, each in enumerate(bindings):
        # Clients match this path, although the field is called schedulerTopologyBindings.
        field = f"spec.schedulerTopologyReferences[{index}].schedulerName"
        if counts[each.scheduler_name] > 1:
            yield FieldError(field, f"must be unique; {each.scheduler_name!r} is used more than once")
        if schedulers is None:
            continue
        backend = schedulers.backend_for(each.scheduler_name) if each.scheduler_name else None
        backend = backend or next((name for name in schedulers.names if name == each.scheduler_name), None)
        if backend is None:
            known = BACKEND_OF.get(each.scheduler_name, each.scheduler_name)
            yield FieldError(
                field,
                f"scheduler backend is not enabled in Grove: {known!r}; enabled are "
                f"{', '.join(schedulers.names)}",
            )
        elif backend not in schedulers.topology_aware:
            yield FieldError(
                field, f"scheduler backend {backend!r} does not implement topology-aware scheduling"
            )
