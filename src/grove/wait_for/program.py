"""The program without its I/O: what it asks the API server next, and what it makes of the answers.

Whoever runs it repeats: take `next_step()`, do it, tell how it went. It lists once and then watches, resumes
where a watch ended, and begins again with a list when the server has forgotten that place. Nothing ends it
but the pods it waits for: a server that is away, a token that is not there yet or a role that is not bound
yet only make it try again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from grove.wait_for.tally import CLIQUE_LABEL, GANG_LABEL, Manifest, Tally

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 10.0
#: Pods in one answer to a list.
PAGE: Final = 500
#: How long a watch lasts at least; the server ends it then, and it is resumed.
WATCH_SECONDS: Final = 240
#: With more parents than this the whole gang is asked for: an address must not become too long.
_MOST_SELECTED: Final = 50
_GONE: Final = 410
_TOO_MANY: Final = 429


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: a list, or a watch whose events are told one by one."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing for so many seconds."""

    seconds: float


class Program:
    """Waits for the parents of one pod; `chance` gives numbers between 0 and 1."""

    def __init__(
        self, parents: Mapping[str, int], *, namespace: str, gang: str, chance: Callable[[], float]
    ) -> None:
        self._tally = Tally(parents)
        self._namespace = namespace
        self._selector = _selector(gang, parents)
        self._chance = chance
        #: Where to resume; empty before the first list, and when the server has forgotten the place.
        self._version = ""
        self._page: list[Manifest] = []
        self._continue = ""
        self._failures = 0
        self._pause: float | None = None
        #: Why it does not get on, as far as that is not the parents' doing.
        self._trouble = ""

    @property
    def finished(self) -> bool:
        return self._tally.complete

    @property
    def sentence(self) -> str:
        """What it waits for, and what is in the way."""
        waiting = self._tally.sentence
        return f"{waiting}; {self._trouble}, trying again" if self._trouble and not self.finished else waiting

    def next_step(self) -> Ask | Pause | None:
        """What to do now; None when there is nothing left to wait for."""
        if self.finished:
            return None
        if self._pause is not None:
            pause, self._pause = Pause(self._pause), None
            return pause
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        if self._version:
            return Ask(path, self._watch_query(), watch=True)
        query = {"labelSelector": self._selector, "limit": str(PAGE)}
        if self._continue:
            query["continue"] = self._continue
        return Ask(path, query)

    def _watch_query(self) -> dict[str, str]:
        return {
            "labelSelector": self._selector,
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            # Not all at the same moment: the pods of a gang begin to watch together.
            "timeoutSeconds": str(int(WATCH_SECONDS * (1 + self._chance()))),
        }

    # How it went ----------------------------------------------------------------------------------

    def listed(self, answer: Manifest) -> None:
        """A page of the list came."""
        self._went_well()
        metadata = answer.get("metadata") or {}
        self._page += answer.get("items") or ()
        self._continue = metadata.get("continue") or ""
        if not self._continue:
            self._tally.replace(self._page)
            self._page = []
            self._version = str(metadata.get("resourceVersion") or "")

    def saw(self, event: Manifest) -> None:
        """The watch told something."""
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            self.refused(int(item.get("code") or 500), str(item.get("message") or ""))
            return
        self._went_well()
        if kind == "DELETED":
            self._tally.drop(item)
        elif kind in ("ADDED", "MODIFIED"):
            self._tally.put(item)
        self._version = item["metadata"].get("resourceVersion") or self._version

    def ended(self, *, told: bool) -> None:
        """The watch ended in order; one that `told` nothing may end at once again."""
        if not told:
            self._wait_longer()

    def refused(self, status: int, message: str, *, after: float = 0.0) -> None:
        """The server answered with an error, and perhaps with the seconds `after` which to ask again."""
        if status == _GONE and (self._version or self._continue):
            # The count stays until the new list is there. Not at once: all that watch are told together.
            self._forget_place()
            self._pause = FIRST_PAUSE * (0.5 + self._chance())
            return
        verb = "watch" if self._version else "list"
        asked = f"{verb} pods in namespace {self._namespace}"
        why = {
            401: "the API server does not accept the token",
            403: f"the pod's service account may not {asked} (yet)",
        }
        self._trouble = (
            f"{why.get(status, f'the API server refused to {asked}')}: {status} {message}".rstrip()
        )
        if 400 <= status < 500 and status != _TOO_MANY:
            # Listed again, whatever it was: a place that the server does not accept is of no use.
            self._forget_place()
        self._wait_longer(after)

    def unreachable(self, why: str) -> None:
        """No answer, or one that broke off."""
        self._trouble = f"no answer from the API server: {why}"
        self._wait_longer()

    def _went_well(self) -> None:
        self._failures, self._trouble = 0, ""

    def _forget_place(self) -> None:
        self._version, self._continue, self._page = "", "", []

    def _wait_longer(self, least: float = 0.0) -> None:
        pause = min(FIRST_PAUSE * 2 ** min(self._failures, 10), LONGEST_PAUSE)
        self._failures += 1
        self._pause = max(least, pause * (0.5 + self._chance()))


def _selector(gang: str, parents: Mapping[str, int]) -> str:
    """The pods of the gang; where they are few, those of the parents alone: a gang may have thousands."""
    selector = f"{GANG_LABEL}={gang}"
    if 0 < len(parents) <= _MOST_SELECTED:
        selector += f",{CLIQUE_LABEL} in ({','.join(sorted(parents))})"
    return selector
