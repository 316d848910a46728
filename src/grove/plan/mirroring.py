"""Labels and annotations that children have from their set, and how to tell them from those of others. Pure.

A key that disappears from the set or a role disappears from its children; a key that somebody else gave them
stays. So that the two can be told apart, a child records in an annotation which keys it has from its set.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from grove.api import labels
from grove.meta import Manifest, Object, View


class _Record(View):
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


_NOTHING: Final = _Record()


def record(of_labels: Collection[str], of_annotations: Collection[str]) -> dict[str, str | None]:
    """The annotation that lists these keys; it must be absent when there are none."""
    if not of_labels and not of_annotations:
        return {labels.MIRRORED: None}
    listed = {"labels": sorted(of_labels), "annotations": sorted(of_annotations)}
    text = msgspec.json.encode({field: keys for field, keys in listed.items() if keys}).decode()
    return {labels.MIRRORED: text}


def outdated(desired: Manifest, observed: Object) -> dict[str, dict[str, None]]:
    """The keys of ours that a child has and no longer should: a null for each, by field."""
    recorded = _recorded(observed)
    gone: dict[str, dict[str, None]] = {}
    for field, known in (("labels", recorded.labels), ("annotations", recorded.annotations)):
        wanted: Mapping[str, object] = desired["metadata"].get(field) or {}
        gone[field] = {
            key: None
            for key in getattr(observed, field)
            if key not in wanted and (key in known or _is_ours(key))
        }
    return gone


def inherited(observed: Object, field: str) -> dict[str, str]:
    """What the pods of a clique get from its labels or annotations: nothing that others put there.

    A clique without a record has nothing from its set, or was not written by one: then all of it counts.
    """
    entries: dict[str, str] = getattr(observed, field)
    if labels.MIRRORED not in observed.annotations:
        return dict(entries)
    known: tuple[str, ...] = getattr(_recorded(observed), field)
    return {
        key: value
        for key, value in entries.items()
        if key != labels.MIRRORED and (key in known or _is_ours(key))
    }


def _recorded(observed: Object) -> _Record:
    text = observed.annotations.get(labels.MIRRORED)
    if not text:
        return _NOTHING
    try:
        return msgspec.json.decode(text, type=_Record)
    except msgspec.MsgspecError:
        # Edited by hand: it is written again with the next change, and until then nothing is taken away.
        return _NOTHING


def _is_ours(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return domain == "grove.io" or domain.endswith(".grove.io") or key in labels.STANDARD
