"""Remove from objects and texts what nobody outside may see: secrets, environment values, credentials.

Rather too much than too little: what only looks like a secret is removed too. Names stay, so that one can
still see that a value was given. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from grove.meta import Manifest

REMOVED: Final = "(removed)"

#: Words in the name of a flag, a key or a variable that make its value a secret.
_WORDS: Final = (
    r"(?:token|passw(?:or)?d|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key|credential|auth)"
)
_SECRET_NAME: Final = re.compile(rf"(?i){_WORDS}s?$")
_SECRET_FLAG: Final = re.compile(rf"(?i)^--?[\w.-]*{_WORDS}[\w.-]*$")
#: Names are limited here and below: of a long line without a space every place could begin one, which would
#: take minutes.
_ASSIGNED: Final = re.compile(
    rf"(?i)([\w.-]{{0,64}}{_WORDS}[\w.-]{{0,200}}[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)"
)
_URL: Final = re.compile(r"([a-zA-Z][\w+.-]{0,32}://)[^\s/@\"']+@")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
#: Tokens that are known by their looks: JWTs, keys of clouds and of code hosts, blocks of keys.
_LOOKS: Final = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}|\bsk-[\w-]{16,}|\bhf_\w{16,}"
    r"|\bxox[abprs]-[\w-]{10,}|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
#: Fields that say where a secret is, not what it is.
_REFERENCES: Final = frozenset({"imagePullSecrets", "secretName", "secretKeyRef", "secretRef", "secret"})


def redacted(manifest: Manifest) -> Manifest:
    """An object as it may be shown to others."""
    kept = {field: _value(field, value) for field, value in manifest.items()}
    if manifest.get("kind") == "Secret":
        for field in ("data", "stringData"):
            if isinstance(manifest.get(field), Mapping):
                kept[field] = dict.fromkeys(manifest[field], REMOVED)
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
            annotations[_LAST_APPLIED] = REMOVED
    return kept


def redacted_text(text: str) -> str:
    """A text, for example of a log, without what looks like a credential."""
    text = _LOOKS.sub(REMOVED, text)
    text = _URL.sub(rf"\1{REMOVED}@", text)
    text = _BEARER.sub(rf"\1 {REMOVED}", text)
    return _ASSIGNED.sub(rf"\1{REMOVED}", text)


def _value(field: str, value: object) -> object:
    match value:
        case str():
            return (
                REMOVED
                if value and _SECRET_NAME.search(field) and field not in _REFERENCES
                else redacted_text(value)
            )
        case dict():
            if field == _LAST_APPLIED:
                return REMOVED
            return {name: _value(str(name), item) for name, item in value.items()}
        case list() | tuple() if field == "env":
            return [_variable(item) for item in value]
        case list() | tuple() if field in ("args", "command"):
            return list(_arguments(value))
        case list() | tuple():
            return [_value(field, item) if isinstance(item, dict | list) else _plain(item) for item in value]
    return value


def _plain(value: object) -> object:
    return redacted_text(value) if isinstance(value, str) else value


def _variable(item: object) -> object:
    """An environment variable without its value; where a value is from stays."""
    if not isinstance(item, dict):
        return REMOVED
    kept = {name: _value(str(name), value) for name, value in item.items() if name != "value"}
    return kept | {"value": REMOVED} if "value" in item else kept


def _arguments(words: Sequence[object]) -> Iterator[object]:
    """Arguments without the values of flags that are called like a secret."""
    hide_next = False
    for word in words:
        if not isinstance(word, str):
            yield word
            continue
        flag, equals, _ = word.partition("=")
        if hide_next and not word.startswith("-"):
            yield REMOVED
            hide_next = False
        elif _SECRET_FLAG.match(flag):
            hide_next = not equals
            yield f"{flag}={REMOVED}" if equals else word
        else:
            hide_next = False
            yield redacted_text(word)
