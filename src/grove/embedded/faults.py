"""Scripted misfortune: what a test lets go wrong, where, and how often.

A `Faults` value is a list of `Fault`s and a seed. The app asks it before and after each request and for
each watch; it answers from the script alone, so a run with the same seed and the same requests fails in the
same places.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from grove.embedded.errors import MODIFIED, ApiError, gone, internal, too_many
from grove.embedded.requests import WRITES


class ConnectionLost(ConnectionError):
    """The client learns nothing: the connection ends without an answer."""


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong. Empty selectors match everything; `*` patterns are understood."""

    action: str
    """conflict, gone, throttle, error, lose (no answer), drop, stall, delay: the last three are for
    watches."""
    verb: str = ""
    resource: str = ""
    user: str = ""
    name: str = ""
    probability: float = 1.0
    times: int | None = None
    """How often it may happen; None for ever."""
    skip: int = 0
    """How many matching requests pass before it may happen: `skip=n-1, times=1` fails the n-th."""
    after: bool = False
    """The write takes effect, and only then the client is told otherwise (`lose`, `error`)."""
    seconds: float = 0.0
    """For throttle: Retry-After. For delay: how late each event is. For stall and drop: 0 means at once."""
    events: int = 0
    """For drop and stall: how many events pass first."""
    happened: int = field(default=0, init=False)

    def matches(self, verb: str, resource: str, user: str, name: str) -> bool:
        kinds = WRITES if self.verb == "write" else ()
        verb_fits = not self.verb or verb == self.verb or verb in kinds
        return verb_fits and all(
            not pattern or fnmatchcase(value, pattern)
            for pattern, value in ((self.resource, resource), (self.user, user), (self.name, name))
        )


WATCH_ACTIONS = frozenset({"drop", "stall", "delay"})


class Faults:
    """The script. Faults may be added and removed while the cluster runs."""

    def __init__(self, faults: Iterable[Fault] = (), *, seed: int = 0) -> None:
        self._faults = list(faults)
        self._random = random.Random(seed)

    def add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """From now on nothing goes wrong; stalled watches stay stalled until they end."""
        self._faults.clear()

    @property
    def active(self) -> bool:
        return bool(self._faults)

    def for_request(self, verb: str, resource: str, user: str, name: str) -> Fault | None:
        """The fault that this request meets, if any; counts it."""
        return self._next(verb, resource, user, name, watch=False)

    def for_watch(self, resource: str, user: str) -> Fault | None:
        """The fault that this watch will meet while it runs."""
        return self._next("watch", resource, user, "", watch=True)

    def _next(self, verb: str, resource: str, user: str, name: str, *, watch: bool) -> Fault | None:
        for fault in self._faults:
            if (fault.action in WATCH_ACTIONS) is not watch or not fault.matches(verb, resource, user, name):
                continue
            if fault.times is not None and fault.happened >= fault.times:
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            if fault.probability < 1 and self._random.random() >= fault.probability:
                continue
            fault.happened += 1
            return fault
        return None


def strike(fault: Fault, resource: str, name: str) -> None:
    """Raises what a request fault says."""
    match fault.action:
        case "conflict":
            message = f'Operation cannot be fulfilled on {resource} "{name}": {MODIFIED}'
            raise ApiError(409, "Conflict", message, {"name": name, "kind": resource})
        case "gone":
            raise gone("too old resource version: a fault was injected")
        case "throttle":
            raise too_many(
                "the server has received too many requests and has asked us to try again later",
                max(1, int(fault.seconds)),
            )
        case "error":
            raise internal("a fault was injected")
        case "lose":
            raise ConnectionLost
    raise ValueError(
        f"unknown fault action {fault.action!r}; choose conflict, gone, throttle, error, lose, drop, stall "
        "or delay"
    )
