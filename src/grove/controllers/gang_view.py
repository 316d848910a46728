"""What a look at one gang finds, and what came of it, as values."""

from collections.abc import Sequence
from dataclasses import dataclass

from grove.api import conditions
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context, Recall, Translation
from grove.errors import GroveError
from grove.meta import find_condition
from grove.plan.changes import Change
from grove.plan.foreign import is_foreign
from grove.plan.foreign import wanted as foreign_wanted
from grove.runtime.store import Foreign


@dataclass(frozen=True, slots=True)
class Seen:
    """A gang with everything that its objects and its status depend on."""

    gang: PodGang
    backend: Backend | None
    context: Context
    cliques: Sequence[PodClique]
    pods: Sequence[Pod]
    objects: Sequence[Foreign]

    @property
    def wanted(self) -> dict[str, int]:
        """How many pods each podgroup wants; one whose clique does not exist yet is missing here."""
        if is_foreign(self.gang):
            return foreign_wanted(self.gang)
        return {clique.name: clique.spec.replicas for clique in self.cliques}


NOTHING = Translation()


@dataclass(frozen=True, slots=True)
class Forward:
    """How a gang becomes scheduler objects: what to change, or why it cannot be translated."""

    changes: tuple[Change, ...] = ()
    translation: Translation = NOTHING
    #: Objects that somebody else edited or deleted.
    repairs: tuple[str, ...] = ()
    #: What the scheduler must learn again before objects that came back may be as translated.
    recall: Recall | None = None
    failure: GroveError | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What went wrong on the way, for the report."""

    failure: GroveError | None
    #: What the pods of a foreign gang lack that only their creator can give them.
    unready: tuple[str, ...] = ()
    #: Whether a new attempt has just begun.
    anew: bool = False


def is_initialized(gang: PodGang) -> bool:
    """Whether its pods are listed and its gates may open."""
    condition = find_condition(gang.status.conditions, conditions.INITIALIZED)
    return condition is not None and condition.is_true
