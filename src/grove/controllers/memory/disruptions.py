"""Which pods of a gang were taken away since that was last told.

Some go with the very change that says why: a pod whose node is gone is marked and deleted at once, and no
status is written meanwhile. So each pod is noted when it is seen, and told in an event by its gang.
"""

from grove.api import labels
from grove.api.pod import Pod
from grove.meta import Key
from grove.plan.gang.disruption import disruption_of


class Disruptions:
    """Remembers each pod that is taken away until its gang has told it."""

    def __init__(self) -> None:
        self._untold: dict[Key, dict[str, Pod]] = {}
        #: By UID, the reason that was noted of pods that still exist: each counts once.
        self._noted: dict[str, str] = {}

    def saw(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed; also of one that is gone by now the last state tells why."""
        pod = new or old
        if pod is None or not (gang := pod.labels.get(labels.POD_GANG)):
            return
        why = disruption_of(pod)
        if why is not None and self._noted.get(pod.uid) != why.reason:
            self._untold.setdefault(Key(pod.namespace, gang), {})[pod.uid] = pod
        if why is not None and new is not None:
            self._noted[pod.uid] = why.reason
        else:
            self._noted.pop(pod.uid, None)

    def take(self, gang: Key) -> list[Pod]:
        """The pods of a gang that are to be told now."""
        return list(self._untold.pop(gang, {}).values())

    def forget(self, gang: Key) -> None:
        """The gang is gone."""
        self._untold.pop(gang, None)
