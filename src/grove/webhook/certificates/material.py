"""What the Secret of the webhooks' certificate holds, read from and written into its manifest."""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Final

from grove.api import labels
from grove.meta import Key, Manifest, Resource, resource

SECRETS: Final[Resource] = resource("", "v1", "Secret")

CHAIN: Final = "tls.crt"
KEY: Final = "tls.key"
CA: Final = "ca.crt"
CA_KEY: Final = "ca.key"


@dataclass(frozen=True, slots=True)
class Material:
    """The four PEM texts: the server's certificate and key, what it is verified by, and the signer's key."""

    chain: bytes = b""
    key: bytes = field(default=b"", repr=False)
    #: The authorities to trust; the one that signs comes first, others while a rotation goes on.
    ca: bytes = b""
    ca_key: bytes = field(default=b"", repr=False)


def material_of(secret: Manifest) -> Material:
    """What a Secret holds; whatever is not there or is not base64 counts as empty."""
    data = secret.get("data") or {}
    return Material(
        chain=_decoded(data.get(CHAIN)),
        key=_decoded(data.get(KEY)),
        ca=_decoded(data.get(CA)),
        ca_key=_decoded(data.get(CA_KEY)),
    )


def desired_secret(key: Key, material: Material, found: Manifest | None) -> Manifest:
    """The Secret with this material.

    Of one that exists everything else stays, also its resourceVersion, which makes the write conditional.
    """
    if found is None:
        metadata = {
            "labels": {labels.MANAGED_BY: labels.MANAGER},
            "name": key.name,
            "namespace": key.namespace,
        }
        found = {"metadata": metadata, "type": "kubernetes.io/tls"}
    texts = {CHAIN: material.chain, KEY: material.key, CA: material.ca, CA_KEY: material.ca_key}
    data = {name: base64.b64encode(text).decode() for name, text in texts.items()}
    return {
        **found,
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "data": {**(found.get("data") or {}), **data},
    }


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""
