"""Decides in one place whether a set is accepted, by which backend, and with which notices. Pure.

The set's controller and `grove render` both ask `judge`; nobody else validates a set or selects for it. The
controller adds what only a cluster can tell: edits that gangs on nodes cannot follow (`plan.edits`), and pod
templates that the API server refuses in a dry run (`controllers.memory.trials`). What
a scheduler cannot express of a single gang is found when that gang is translated: `Translation.treatments`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from grove.admission.autoscaling import autoscaling_notices
from grove.admission.defaults import fill_in
from grove.admission.disruption import budget_errors, budget_notices, unsupported_budgets
from grove.admission.levels import levels_condition, unmet_requirements
from grove.admission.limits import validate_limits
from grove.admission.order import order_notices
from grove.admission.pod_shape import misshapen
from grove.admission.support import annotation_errors, notices, unsupported, unsupported_domains
from grove.admission.topology import topology_notices, validate_nesting
from grove.admission.validation import validate
from grove.api import conditions
from grove.api.cliqueset import PodCliqueSet
from grove.api.config import Limits
from grove.api.decode import decode
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Cluster, Context
from grove.backends.registry import Selection
from grove.errors import BackendFailed, FieldError
from grove.meta import Condition


class Schedulers(Protocol):
    """The enabled backends and what they may know of the cluster."""

    def select(self, cliqueset: PodCliqueSet, /) -> Selection: ...

    def context(self, backend: Backend, cliqueset: PodCliqueSet, /) -> Context: ...


@dataclass(frozen=True, slots=True)
class Here:
    """Everything outside a set that decides about it."""

    schedulers: Schedulers
    #: The ClusterTopologyBinding that the set names, if there is one.
    binding: ClusterTopologyBinding | None = None
    topology_aware: bool = True
    #: How many pods one set may have.
    pods_per_set: int = Limits().pods_per_set
    #: What the cluster serves; None where that does not matter.
    cluster: Cluster | None = None
    #: Whether roles may share NVLink domains.
    nvlink_domains: bool = True


@dataclass(frozen=True, slots=True)
class Understood:
    """A set with its defaults filled in, and what is wrong with it wherever it is stored."""

    cliqueset: PodCliqueSet
    errors: Sequence[FieldError] = ()
    #: Whether its pod specs have the shape of pod specs; nobody can say more about others.
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a set can be carried out and by whom; if not, every reason, and the kind of the first one."""

    cliqueset: PodCliqueSet
    backend: Backend | None = None
    refused: tuple[FieldError, ...] = ()
    #: The reason of the condition `Accepted`.
    reason: str = conditions.VALID
    #: The condition `TopologyLevelsUnavailable`, where the set has topology constraints.
    levels: Condition | None = None
    #: What is accepted but deserves a word.
    notices: tuple[FieldError, ...] = ()


def understand(cliqueset: PodCliqueSet, *, new: bool = False) -> Understood:
    """The half of the judgement that depends on the set alone, and may be remembered until its spec changes.

    `new` adds the rules that sets from earlier releases need not keep.
    """
    filled = decode(fill_in(msgspec.to_builtins(cliqueset)), PodCliqueSet)
    readable = not any(misshapen("", role.spec.pod_spec) for role in filled.template.cliques)
    return Understood(
        filled, (*validate(filled, new=new), *annotation_errors(filled), *budget_errors(filled)), readable
    )


def judge(understood: Understood, here: Here) -> Judgement:
    """Whether the set can be carried out here."""
    cliqueset = understood.cliqueset
    if not understood.readable:
        return Judgement(cliqueset, refused=tuple(understood.errors), reason=conditions.INVALID)
    binding = here.binding if here.topology_aware else None
    levels = levels_condition(cliqueset, here.binding, enabled=here.topology_aware)
    remarks = (
        *notices(cliqueset),
        *order_notices(cliqueset),
        *autoscaling_notices(cliqueset),
        *budget_notices(cliqueset),
        *topology_notices(cliqueset, binding),
    )
    found = [
        (conditions.INVALID, [*understood.errors, *validate_nesting(cliqueset, binding)]),
        (conditions.LIMIT_EXCEEDED, list(validate_limits(cliqueset, pods_per_set=here.pods_per_set))),
        (conditions.UNSUPPORTED, _unsupported(cliqueset, here)),
        (conditions.TOPOLOGY_LEVELS_UNAVAILABLE, unmet_requirements(cliqueset, binding, levels)),
    ]
    backend = None
    if not any(errors for _, errors in found):
        # Only a set that makes sense is shown to a backend.
        backend, *finding = _backend_for(cliqueset, here.schedulers)
        found += finding
    reason = next((kind for kind, errors in found if errors), conditions.VALID)
    refused = tuple(error for _, errors in found for error in errors)
    return Judgement(cliqueset, backend, refused, reason, levels, remarks)


def _unsupported(cliqueset: PodCliqueSet, here: Here) -> list[FieldError]:
    return [
        *unsupported(cliqueset, here.cluster),
        *unsupported_domains(cliqueset, here.cluster, enabled=here.nvlink_domains),
        *unsupported_budgets(cliqueset, here.cluster),
    ]


def _backend_for(
    cliqueset: PodCliqueSet, schedulers: Schedulers
) -> tuple[Backend | None, tuple[str, list[FieldError]]]:
    """The backend that the set goes to, and what that backend, or the selection, has against it."""
    selection = schedulers.select(cliqueset)
    backend = selection.backend
    if backend is None:
        return None, (selection.reason, list(selection.errors))
    try:
        errors = list(backend.validate(cliqueset, schedulers.context(backend, cliqueset)))
    except Exception as defect:
        errors = [FieldError("", str(BackendFailed(backend.name, defect)))]
    return backend, (conditions.UNSUPPORTED, errors)
