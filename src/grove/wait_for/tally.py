"""How many ready pods each clique has that is waited for. Pure; reads pods as the API server sends them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

#: An object as JSON has it.
Manifest = dict[str, Any]

CLIQUE_LABEL: Final = "grove.io/podclique"
GANG_LABEL: Final = "grove.io/podgang"

#: A sentence names no more cliques than this: a pod's status holds 4096 characters of it.
_MOST_NAMED: Final = 10


class Tally:
    """The ready pods of the parents, kept up to date from a list and the events after it.

    A pod belongs to the clique that its label names, exactly: names of cliques may begin with one another.
    """

    def __init__(self, parents: Mapping[str, int]) -> None:
        self._parents = dict(parents)
        #: The clique of each ready pod, by the pod's UID.
        self._ready: dict[str, str] = {}
        #: Whether the pods have been listed: before that the numbers mean nothing.
        self.known = False

    @property
    def complete(self) -> bool:
        """Whether every parent has as many ready pods as it needs."""
        counts = self._counts()
        return not self._parents or (
            self.known and all(counts[name] >= needed for name, needed in self._parents.items())
        )

    def replace(self, pods: Iterable[Manifest]) -> None:
        """What a list says: these pods exist, and no others."""
        self._ready.clear()
        self.known = True
        for pod in pods:
            self.put(pod)

    def put(self, pod: Manifest) -> None:
        """A pod as it is now."""
        metadata = pod["metadata"]
        clique = (metadata.get("labels") or {}).get(CLIQUE_LABEL)
        if clique in self._parents and is_ready(pod):
            self._ready[metadata["uid"]] = clique
        else:
            self._ready.pop(metadata["uid"], None)

    def drop(self, pod: Manifest) -> None:
        """A pod that is gone."""
        self._ready.pop(pod["metadata"]["uid"], None)

    @property
    def sentence(self) -> str:
        """What is still waited for; afterwards, what was there."""
        counts = self._counts()
        if not self.known and self._parents:
            needed = [f"{name} ({count})" for name, count in self._parents.items()]
            return f"waiting for ready pods of {_some(needed)}"
        parts = [
            f"{name}: {counts[name]} of {needed} ready"
            for name, needed in self._parents.items()
            if self.complete or counts[name] < needed
        ]
        if self.complete:
            return f"nothing to wait for any more: {_some(parts)}" if parts else "nothing to wait for"
        return f"waiting for {_some(parts)}"

    def _counts(self) -> dict[str, int]:
        counts = dict.fromkeys(self._parents, 0)
        for clique in self._ready.values():
            counts[clique] += 1
        return counts


def is_ready(pod: Manifest) -> bool:
    """Whether a pod serves: its condition says so, and it is not on its way out."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _some(parts: list[str]) -> str:
    more = len(parts) - _MOST_NAMED
    return ", ".join(parts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
