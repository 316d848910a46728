"""The identity of a pod template: equal meaning gives an equal hash, across releases.

The hash covers the template's labels, annotations and pod spec as canonical JSON. Map order does not count,
nor do absent-or-empty values, nor the defaults that an API server or the Go operator's webhook would fill
in. A value is a default only at its own path: `restartPolicy: Always` is one of a pod, but makes a sidecar of
an init container, and an annotation or a variable may be called `protocol`. The order of lists counts:
it has meaning to containers, arguments and environments.

A hash that changes makes every pod of a running cluster count as outdated. `tests/plan/hashes.json` holds
templates with their hashes; entries may be added, but never change.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from grove.api.cliqueset import PodCliqueTemplate
from grove.meta import Manifest

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 10

_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_EACH: Final = "[]"

Path = tuple[str, ...]

#: Values that mean the same as their absence, by the path at which they do.
_DEFAULTS: Final[Mapping[Path, object]] = {
    ("spec", "restartPolicy"): "Always",
    ("spec", "terminationGracePeriodSeconds"): 30,
    ("spec", "dnsPolicy"): "ClusterFirst",
    ("spec", "schedulerName"): "default-scheduler",
    **{("spec", each, _EACH, "ports", _EACH, "protocol"): "TCP" for each in _CONTAINERS},
}
#: Where an empty object says nothing. Elsewhere it may: `namespaceSelector: {}` selects every namespace.
_EMPTY_OBJECTS: Final[frozenset[Path]] = frozenset(
    {
        ("labels",),
        ("annotations",),
        ("spec", "affinity"),
        ("spec", "nodeSelector"),
        ("spec", "securityContext"),
        *(
            ("spec", each, _EACH, *field)
            for each in _CONTAINERS
            for field in (
                ("resources",),
                ("resources", "limits"),
                ("resources", "requests"),
                ("securityContext",),
            )
        ),
    }
)
#: Maps whose keys are names of somebody's choice: a value that is empty is there all the same.
_NAMED: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "volumeAttributes"})


def template_hash(template: PodCliqueTemplate, *, priority_class: str = "") -> str:
    """The hash of one clique's pod template, written as the label `grove.io/pod-template-hash`."""
    return _encode(canonical(_identity(template, priority_class)))


def generation_hash(templates: Iterable[PodCliqueTemplate], *, priority_class: str = "") -> str:
    """The hash of all of a set's pod templates; their order in the set does not count."""
    by_name = sorted(templates, key=lambda template: template.name)
    return _encode([[template.name, canonical(_identity(template, priority_class))] for template in by_name])


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
    """The value at a path of a pod template, without what means the same as its absence."""
    if isinstance(value, dict):
        items = ((key, canonical(item, (*path, key)), (*path, key)) for key, item in value.items())
        return {key: item for key, item, at in items if not _says_nothing(item, at)}
    if isinstance(value, (list, tuple)):
        return [canonical(item, (*path, _EACH)) for item in value]
    return value


def _says_nothing(value: object, path: Path) -> bool:
    if value is None or value == []:
        return True
    if value == {}:
        return path in _EMPTY_OBJECTS
    if value == "":
        return len(path) < 2 or path[-2] not in _NAMED
    return path in _DEFAULTS and _DEFAULTS[path] == value
