"""What a look at one gang finds, and what came of it, as values."""

from collections.abc import Sequence
from dataclasses import dataclass

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context, Recall, Translation
from grove.errors import GroveError
from grove.meta import UntypedObject
from grove.plan.changes import Change
from grove.plan.foreign import is_foreign
from grove.plan.foreign import wanted as foreign_wanted


@dataclass(frozen=True, slots=True)
class Seen:
    """A gang with everything that its objects and its status depend on."""

    gang: PodGang
    backend: Backend | None
    context: Context
    cliques: Sequence[PodClique]
    #: Its pods, those included that a scheduler made to hold places for them.
    pods: Sequence[Pod]
    objects: Sequence[UntypedObject]

    @property
    def members(self) -> list[Pod]:
        """Its pods, without those that only hold places."""
        return [pod for pod in self.pods if labels.POD_CLIQUE in pod.labels]

    @property
    def running(self) -> bool:
        """Whether any of its pods is on a node."""
        return any(self.context.bound.values())

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
    #: Objects of the present start that are being deleted.
    leaving: tuple[str, ...] = ()
    failure: GroveError | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What went wrong on the way, for the report."""

    failure: GroveError | None
    #: What the pods of a foreign gang lack that only their creator can give them.
    unready: tuple[str, ...] = ()
    #: Why the gang has just been started anew; empty when it was not.
    anew: str = ""
    #: Why its gates stay closed although it is complete; empty when they do not.
    held: str = ""
    #: Living pods that carry the gang's labels and belong to nobody.
    strangers: tuple[str, ...] = ()
