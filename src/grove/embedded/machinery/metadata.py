"""The rules of `metadata` that hold for every kind: known fields, names, labels, owners, finalizers.

Pure: objects in, unknown field paths or field errors out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from grove.embedded.errors import Cause, Manifest
from grove.embedded.resource_type import ResourceType

SYSTEM = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
"""Fields that only the server writes."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_LABEL = re.compile(_LABEL)
_QUALIFIED = re.compile(rf"({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
ANNOTATION_LIMIT = 256 * 1024
# Kinds whose name is one DNS label, or (as with RBAC) any path segment.
_LABEL_NAMED = frozenset({("", "namespaces"), ("", "services")})
_FREELY_NAMED = frozenset({"rbac.authorization.k8s.io"})


def type_errors(meta: Manifest) -> str:
    """The first field whose JSON type is wrong, as the decoder would complain; empty when there is none."""
    for name in ("labels", "annotations"):
        values = meta.get(name)
        if values is None:
            continue
        if not isinstance(values, dict):
            return f"metadata.{name}: expected an object"
        for key, value in values.items():
            if not isinstance(value, str):
                return f"metadata.{name}[{key}]: expected a string"
    for name in ("finalizers", "ownerReferences", "managedFields"):
        if meta.get(name) is not None and not isinstance(meta[name], list):
            return f"metadata.{name}: expected an array"
    return ""


def normalise(meta: Manifest) -> None:
    """Drops empty collections, which the stored form does not have."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields"):
        if name in meta and not meta[name]:
            del meta[name]


def name_errors(resource: ResourceType, name: str) -> list[Cause]:
    if resource.group in _FREELY_NAMED:
        bad = "/" in name or "%" in name or name in (".", "..")
        message = f"Invalid value: \"{name}\": may not contain '/' or '%'"
        return [Cause("metadata.name", "FieldValueInvalid", message)] if bad else []
    if resource.key in _LABEL_NAMED:
        good, rule = len(name) <= 63 and _DNS_LABEL.fullmatch(name), _LABEL_RULE
    else:
        good, rule = len(name) <= 253 and _SUBDOMAIN.fullmatch(name), _SUBDOMAIN_RULE
    if good:
        return []
    return [Cause("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {rule}')]


def metadata_errors(meta: Manifest) -> list[Cause]:
    causes: list[Cause] = []
    if labels := meta.get("labels"):
        causes += label_errors(labels)
    if annotations := meta.get("annotations"):
        causes += _annotation_errors(annotations)
    if owners := meta.get("ownerReferences"):
        causes += _owner_errors(owners)
    for finalizer in meta.get("finalizers") or ():
        if not _QUALIFIED.fullmatch(str(finalizer)):
            message = f'Invalid value: "{finalizer}": {_KEY_RULE}'
            causes.append(Cause("metadata.finalizers", "FieldValueInvalid", message))
    return causes


def label_errors(labels: Mapping[str, str], field: str = "metadata.labels") -> list[Cause]:
    """What is wrong with the keys and values of labels."""
    causes = []
    for key, value in labels.items():
        if not _QUALIFIED.fullmatch(key):
            message = f'Invalid value: "{key}": {_KEY_RULE}'
            causes.append(Cause(field, "FieldValueInvalid", message))
        if not _VALUE.fullmatch(value):
            rule = "must be no more than 63 characters" if len(value) > 63 else _VALUE_RULE
            causes.append(Cause(field, "FieldValueInvalid", f'Invalid value: "{value}": {rule}'))
    return causes


def _annotation_errors(annotations: Mapping[str, str]) -> list[Cause]:
    causes = [
        Cause("metadata.annotations", "FieldValueInvalid", f'Invalid value: "{key}": {_KEY_RULE}')
        for key in annotations
        if not _QUALIFIED.fullmatch(key.lower())
    ]
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATION_LIMIT:
        message = f"Too long: may not be more than {ANNOTATION_LIMIT} bytes"
        causes.append(Cause("metadata.annotations", "FieldValueTooLong", message))
    return causes


def _owner_errors(owners: list[Manifest]) -> list[Cause]:
    causes = []
    controllers = []
    for index, owner in enumerate(owners):
        where = f"metadata.ownerReferences[{index}]"
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                message = f"Invalid value: {'{}' if name == 'apiVersion' else chr(34) * 2}: must not be empty"
                causes.append(Cause(f"{where}.{name}", "FieldValueInvalid", message))
        if owner.get("controller"):
            controllers.append(owner.get("name"))
    if len(controllers) > 1:
        message = (
            "Invalid value: null: Only one reference can have Controller set to true. Found "
            f'"true" in references for {controllers[0]} and {controllers[1]}'
        )
        causes.append(Cause("metadata.ownerReferences", "FieldValueInvalid", message))
    return causes


def new_finalizer_errors(new: Manifest, old: Manifest) -> list[Cause]:
    """While an object is being deleted its finalizers may only become fewer."""
    if not old.get("deletionTimestamp"):
        return []
    added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if not added:
        return []
    listed = "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
    message = (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
        f"{listed}"
    )
    return [Cause("metadata.finalizers", "FieldValueForbidden", message)]
