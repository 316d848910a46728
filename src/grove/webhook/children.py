"""Answers about cliques, scaling groups and gangs that somebody else than the operator writes."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from grove.admission.children import (
    child_notices,
    validate_clique,
    validate_gang,
    validate_group,
)
from grove.api import labels
from grove.api.clique import PodClique
from grove.api.decode import decode
from grove.api.gang import PodGang
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.backends.base import Fidelity
from grove.errors import FieldError, InvalidInput, Unsupported, Waiting
from grove.meta import Manifest, Object
from grove.webhook.review import ALLOWED, CREATE, UPDATE, Answer, Request
from grove.webhook.surroundings import Surroundings

V = TypeVar("V", bound=Object)
C = TypeVar("C", PodClique, PodCliqueScalingGroup)


class ChildReviews:
    """Says whether what belongs to sets may be stored like this."""

    def __init__(self, known: Surroundings) -> None:
        self._known = known

    async def clique(self, request: Request) -> Answer:
        return _reviewed(request, PodClique, validate_clique)

    async def scaling_group(self, request: Request) -> Answer:
        return _reviewed(request, PodCliqueScalingGroup, validate_group)

    async def gang(self, request: Request) -> Answer:
        if request.object is None or request.operation not in (CREATE, UPDATE):
            return ALLOWED
        try:
            gang = decode(request.object, PodGang)
        except InvalidInput as error:
            return Answer(error.errors)
        if gang.terminating:
            return ALLOWED
        errors = list(validate_gang(gang, self._known.schedulers.registry))
        return Answer(errors) if errors else self._translated(gang)

    def _translated(self, gang: PodGang) -> Answer:
        """What the scheduler of a gang says to it, where it is known which one that is."""
        asked = gang.labels.get(labels.SCHEDULER_BACKEND) or gang.annotations.get(labels.SCHEDULER_BACKEND)
        schedulers = self._known.schedulers
        backend = schedulers.registry.find(asked) if asked else None
        if backend is None:
            return ALLOWED
        try:
            treatments = backend.translate(gang, schedulers.context(backend)).treatments
        except Unsupported as refusal:
            return Answer((FieldError("spec", str(refusal)),))
        except Waiting as wait:
            return Answer(warnings=(str(wait),))
        except Exception:
            # A defect of a backend is told by the gang itself.
            return ALLOWED
        lost = [each for each in treatments if each.fidelity is not Fidelity.ENFORCED]
        return Answer(
            warnings=[f"{backend.name}: {each.property} {each.fidelity}: {each.reason}" for each in lost]
        )


def _reviewed(request: Request, type_: type[C], validate: Callable[[C], Iterable[FieldError]]) -> Answer:
    if request.object is None or request.operation not in (CREATE, UPDATE):
        return ALLOWED
    try:
        new = decode(request.object, type_)
    except InvalidInput as error:
        return Answer(error.errors)
    if new.terminating:
        return ALLOWED
    old = _read(request.old_object, type_) if request.operation == UPDATE else None
    before = {error.field for error in validate(old)} if old is not None else set()
    # What was wrong before does not keep anybody from scaling it.
    errors = [error for error in validate(new) if error.field not in before]
    return Answer(errors, tuple(child_notices(old, new)))


def _read(manifest: Manifest | None, type_: type[V]) -> V | None:
    try:
        return decode(manifest, type_) if manifest is not None else None
    except InvalidInput:
        return None
