"""Resync of koord-scheduler: how it learns again which pods belong to a PodGroup that was deleted. Pure.

With a PodGroup it forgets the members, and whether the gang was ever placed, and it hears of a pod only when
that pod changes. A recreated PodGroup therefore asks for more than there is until its pods were touched: the
minimum that is lowered then wakes the gang as a whole, as at its first start. Of a gang that has nodes the
pods on them are touched, after which Koordinator counts it as placed. A pod of it that waits was refused
without a word, and only a new pod is tried: it is replaced.
"""

from collections.abc import Mapping, Sequence

from grove.api import labels
from grove.api.pod import Pod
from grove.backends.base import Lifecycle, Marks
from grove.meta import Manifest


def recreated(manifest: Manifest, minimum: int) -> Manifest:
    """A PodGroup that nobody can satisfy, with the mark that says why."""
    metadata = dict(manifest["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), labels.RECREATED: "true"}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "minMember": minimum}}


def recall(objects: Sequence[Manifest], pods: Sequence[Pod], label: str) -> Lifecycle:
    """What Koordinator must be shown again; nothing where no PodGroup was recreated."""
    remade = {str(each["metadata"]["name"]): each for each in objects if _is_marked(each)}
    if not remade:
        return Lifecycle()
    if not all(_is_seen(each) for each in remade.values()):
        # Until it has written into the new one it may still hold the old one, and forget what it hears.
        return Lifecycle(hold_back=True)
    living = [pod for pod in pods if pod.active]
    members = [pod for pod in living if pod.labels.get(label, "") in remade]
    placed = any(pod.bound for pod in living if label in pod.labels)
    uids = {name: str(each["metadata"].get("uid", "")) for name, each in remade.items()}
    touched = _touched([pod for pod in members if pod.bound or not placed], uids, label)
    if touched:
        return Lifecycle(hold_back=True, touch=touched)
    return Lifecycle(replace=tuple(pod for pod in members if placed and not pod.bound))


def _touched(pods: Sequence[Pod], uids: Mapping[str, str], label: str) -> tuple[tuple[Pod, Marks], ...]:
    wanted = [(pod, uids[pod.labels[label]]) for pod in pods]
    return tuple(
        (pod, Marks(annotations={labels.RESYNCED_FOR: uid}))
        for pod, uid in wanted
        if pod.annotations.get(labels.RESYNCED_FOR) != uid
    )


def _is_marked(manifest: Manifest) -> bool:
    return labels.RECREATED in (manifest["metadata"].get("annotations") or {})


def _is_seen(manifest: Manifest) -> bool:
    """Whether Koordinator has written a status into it."""
    status = manifest.get("status")
    return isinstance(status, dict) and bool(status.get("phase"))
