"""ControllerRevision: a state of a set's pod templates that is kept so that it can be gone back to."""

import msgspec

from grove.meta import Manifest, Object


class ControllerRevision(Object):
    """One state of a set's template, numbered in the order in which the states were asked for."""

    revision: int = 0
    #: The part of a PodCliqueSet that was recorded; it never changes.
    data: Manifest = msgspec.field(default_factory=dict)
