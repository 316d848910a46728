"""The identity of a pod template: equal meaning gives an equal hash, across releases.

The hash covers the template's labels, annotations and pod spec as canonical JSON: map order, absent-or-empty
values and the defaults that an API server or the incumbent's webhook would fill in do not count; the order of
lists does, because it has meaning to containers, arguments and environments.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from grove.api.cliqueset import PodCliqueTemplate
from grove.meta import Manifest

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 10

#: Values that mean the same as their absence, by the field that holds them.
_DEFAULTS: dict[str, object] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "protocol": "TCP",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}


def template_hash(template: PodCliqueTemplate, *, priority_class: str = "") -> str:
    """The hash of one clique's pod template, written as the label `grove.io/pod-template-hash`."""
    return _encode(_identity(template, priority_class))


def generation_hash(templates: Iterable[PodCliqueTemplate], *, priority_class: str = "") -> str:
    """The hash of all of a set's pod templates; their order in the set does not count."""
    by_name = sorted(templates, key=lambda template: template.name)
    return _encode([[template.name, _identity(template, priority_class)] for template in by_name])


def _identity(template: PodCliqueTemplate, priority_class: str) -> Manifest:
    spec = {**template.spec.pod_spec, "priorityClassName": priority_class}
    return {"labels": template.labels, "annotations": template.annotations, "spec": spec}


def _encode(identity: object) -> str:
    text = json.dumps(_canonical(identity), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _canonical(item) for key, item in value.items() if _DEFAULTS.get(key) != item}
        return {key: item for key, item in kept.items() if item not in (None, {}, [], "")}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return value
