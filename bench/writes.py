"""How writes are named and which requests are none; the same for both control planes. Pure."""

from typing import Final

_EVENTS: Final = ("events", "events.events.k8s.io")
#: Questions that have the form of a create and store nothing.
_QUESTIONS: Final = ("authorization.k8s.io", "authentication.k8s.io")


def is_question(resource: str) -> bool:
    """Whether a create of this resource stores nothing."""
    return resource.partition("/")[0].endswith(_QUESTIONS)


def about_events(name: str) -> bool:
    """Whether a write of this name, such as `create events`, told an event."""
    return name.partition(" ")[2] in _EVENTS
