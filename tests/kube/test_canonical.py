"""The bytes of what an API server keeps as bytes: those that it would write itself, so that patches do not change them."""

import pytest

from grove.api import kinds
from grove.kube.canonical import body_of
from grove.meta import Manifest, Resource

WRITTEN: dict[str, tuple[Manifest, bytes]] = {
    "keys in order, at every depth": ({"b": [{"d": 1, "c": 2}], "a": {}}, b'{"a":{},"b":[{"c":2,"d":1}]}'),
    "upper case before lower case": ({"a": 1, "Z": 2, "_": 3}, b'{"Z":2,"_":3,"a":1}'),
    "what HTML minds": ({"a&b": "x <y> && z"}, rb'{"a\u0026b":"x \u003cy\u003e \u0026\u0026 z"}'),
    "ends of lines that JavaScript minds": ({"a": "\u2028\u2029"}, rb'{"a":"\u2028\u2029"}'),
    "letters of every script, and quotes": ({"a": 'é "\\" \n'}, '{"a":"é \\"\\\\\\" \\n"}'.encode()),
}


@pytest.mark.parametrize("kind", [kinds.CONTROLLER_REVISIONS, kinds.RESOURCE_CLAIMS], ids=str)
@pytest.mark.parametrize(("manifest", "want"), WRITTEN.values(), ids=WRITTEN)
def test_records_and_claims_are_sent_as_the_server_would_write_them(
    kind: Resource, manifest: Manifest, want: bytes
) -> None:
    assert body_of(kind, manifest) == want


def test_what_is_kept_as_fields_is_sent_as_it_comes() -> None:
    assert body_of(kinds.PODS, {"b": "a && b", "a": 1}) == b'{"b":"a && b","a":1}'
