"""JSON as an API server writes it itself, for what it keeps as bytes and never lets change.

The data of a ControllerRevision are such a field, and what a ResourceClaim tells a driver: every patch of the
object writes them anew, with sorted keys and escapes for what HTML minds, and is refused if the bytes are not
those of before. Patches come from others too: the garbage collector takes the owner off what is orphaned.
"""

from typing import Any, Final

import msgspec

from grove.kube.decoding import encode
from grove.meta import Resource, resource

#: What has a field that is kept as bytes.
_OF_BYTES: Final = frozenset(
    {resource("apps", "v1", "ControllerRevision"), resource("resource.k8s.io", "v1", "ResourceClaim")}
)
#: As Go escapes them; in JSON they stand in strings only.
_ESCAPED: Final = tuple((each.encode(), rf"\u{ord(each):04x}".encode()) for each in "<>&\u2028\u2029")

_sorted: Final = msgspec.json.Encoder(order="sorted").encode


def body_of(kind: Resource, manifest: Any) -> bytes:
    """What is sent to create an object."""
    if kind not in _OF_BYTES:
        return encode(manifest)
    body = _sorted(manifest)
    for character, escaped in _ESCAPED:
        body = body.replace(character, escaped)
    return body
