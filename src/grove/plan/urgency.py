"""How soon a status must be written; `controllers.pacing` decides when that is."""

from enum import Enum, auto


class Urgency(Enum):
    """Who waits for a status."""

    #: Somebody cannot go on before it is written.
    IMMEDIATE = auto()
    #: Why something does not go on: within half a second, unless it is over by then.
    SOON = auto()
    #: Progress: once it has settled and nothing more important is to be written.
    SETTLED = auto()
    #: Begins to work for the first time: like progress, and held while many pods are being placed, so that
    #: placed and ready are told together.
    STARTING = auto()
    #: Still waiting, which is no news: deferred while many pods are being placed.
    DEFERRED = auto()
