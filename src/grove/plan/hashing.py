"""The identity of a pod template: equal meaning gives an equal hash, across releases.

The hash covers the template's labels, annotations and pod spec as canonical JSON. Map order does not count,
nor does the spelling of quantities, nor do values that mean the same as their absence: empty ones, what Go's
types leave out, and the defaults that an API server or the Go operator's webhook would fill in. A value says
nothing only at its own path (`plan.pod_fields`): `restartPolicy: Always` is a default of a pod, but makes a
sidecar of an init container, and an annotation or a variable may be called `protocol`. The order of lists
counts: it has meaning to containers, arguments and environments.

A hash that changes gives a set another label than its pods have. `tests/plan/hashes.json` holds templates
with their hashes; entries may be added, but never change. Where a release must compute another hash all the
same, what runs keeps the label that it has: `plan.update.template_labels`.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from grove.api.cliqueset import PodCliqueTemplate
from grove.meta import Manifest
from grove.plan.pod_fields import EACH, Path, says_nothing, usual_value

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 10


def template_hash(template: PodCliqueTemplate, *, priority_class: str = "") -> str:
    """The hash of one clique's pod template, written as the label `grove.io/pod-template-hash`."""
    return hash_of(_identity(template, priority_class))


def generation_hash(templates: Iterable[PodCliqueTemplate], *, priority_class: str = "") -> str:
    """The hash of all of a set's pod templates; their order in the set does not count."""
    by_name = sorted(templates, key=lambda template: template.name)
    return _encode([[template.name, canonical(_identity(template, priority_class))] for template in by_name])


def hash_of(identity: Manifest) -> str:
    """The hash of labels, annotations and a pod spec, wherever they are from."""
    return _encode(canonical(identity))


def _identity(template: PodCliqueTemplate, priority_class: str) -> Manifest:
    pods = template.spec.pod_spec
    # A pod's own priority class wins over that of its set, as it does when the pod is made.
    spec = {**pods, "priorityClassName": pods.get("priorityClassName") or priority_class}
    return {"labels": template.labels, "annotations": template.annotations, "spec": spec}


def _encode(identity: object) -> str:
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)


def canonical(value: Any, path: Path = ()) -> Any:
    """The value at a path of a pod template, in its usual spelling and without what says nothing."""
    if isinstance(value, dict):
        items = ((key, canonical(item, (*path, key)), (*path, key)) for key, item in value.items())
        return {key: item for key, item, at in items if not says_nothing(item, at)}
    if isinstance(value, (list, tuple)):
        return [canonical(item, (*path, EACH)) for item in value]
    return usual_value(value, path)
