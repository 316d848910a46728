"""Which label the pods of a clique's template have: ours, or that of another operator or release. Pure.

The label is opaque. For as long as the template of a clique means the same, the clique keeps the label that
its pods have; when it gets another template, it remembers in an annotation which label the one before had, so
that pods which never left it are known once it is back. A label that no pod has was written by hand, and is
put back. No value is ever compared with one that somebody else computed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.meta import Manifest
from grove.plan.environment import without_group_size
from grove.plan.hashing import hash_of
from grove.plan.mirroring import inherited
from grove.plan.update.revisions import HISTORY, follows, means_the_same, of_a_template, pod_template_of

_NOTHING: Final[Mapping[str, str]] = {}


def template_label(desired: Manifest, living: PodClique, pods: Sequence[Pod] | None) -> str:
    """The label that a living clique should have; its `pods` are None where nobody looked at them."""
    ours, told = desired["metadata"]["labels"][labels.POD_TEMPLATE_HASH], pod_template_of(living)
    known = _remembered(living)
    if told == ours and not known:
        return str(ours)
    remembered = known.get(_meaning(desired["metadata"], desired["spec"]["podSpec"])) if known else None
    if remembered is None and (told == ours or not means_the_same(desired, living)):
        return str(ours)
    carried = {pod_template_of(pod) for pod in pods or () if pod.keeps_place} - {""}
    if ours in carried:
        return str(ours)
    if remembered is not None:
        return remembered
    if told in carried or (told and pods is None):
        return told
    return _put_back(str(ours), living, carried)


def _put_back(ours: str, living: PodClique, carried: set[str]) -> str:
    """The label of a clique whose template is as it should be and whose label is that of no pod."""
    status, told = living.status, pod_template_of(living)
    rolled_out, progress = status.current_pod_template_hash, status.update_progress
    if not carried:
        # Pods that are not seen yet may have it; where there are none, it costs nothing to keep.
        return told if told and (status.replicas or told == rolled_out) else ours
    if progress is not None and progress.pod_template_hash == ours:
        # Its pods were made from an earlier template.
        return ours
    others = _remembered(living).values()
    return rolled_out if rolled_out and rolled_out in carried and rolled_out not in others else ours


def remembering(living: PodClique, ours: str, pods: Sequence[Pod] | None) -> str | None:
    """The annotation of a clique that gets another template, once `ours` is our label of the one before.

    None for one that has nothing to remember: it would get the same label again.
    """
    known, told = _remembered(living), pod_template_of(living)
    if told not in ("", ours) and any(pod_template_of(pod) == told for pod in pods or ()):
        own = labels.MIRRORED in living.annotations or follows(living) is None
        metadata = {
            field: inherited(living, field) if own else _NOTHING for field in ("labels", "annotations")
        }
        meaning = _meaning(metadata, living.spec.pod_spec)
        # One that is the hash of what it stands for is ours, though nobody recorded the template.
        known = {**known, meaning: told} if meaning != told else known
    latest = dict(list(known.items())[-HISTORY:])
    return msgspec.json.encode(latest).decode() if latest else None


def _meaning(metadata: Mapping[str, Any], pod_spec: Manifest) -> str:
    """What a clique's pods are made from, as `means_the_same` compares it."""
    marks = {
        field: {key: value for key, value in metadata[field].items() if of_a_template(key)}
        for field in ("labels", "annotations")
    }
    return hash_of({**marks, "spec": without_group_size(pod_spec)})


def _remembered(living: PodClique) -> Mapping[str, str]:
    """By what a template meant, the label that its pods have."""
    text = living.annotations.get(labels.TEMPLATE_LABELS)
    if not text:
        return _NOTHING
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        # Edited by hand: it is written again with the next template.
        return _NOTHING
