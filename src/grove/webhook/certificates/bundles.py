"""The caBundles of Grove's webhook configurations: which authorities they hold, what would put them right.

Pure. Only webhooks with names of ours in objects with names of ours are looked at; whatever else somebody
wrote into them stays as it is.
"""

import base64
import binascii
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from grove.meta import Manifest
from grove.webhook.certificates.configurations import Registration
from grove.webhook.certificates.inspection import authorities_in, fingerprint

#: Whoever sets it wants cert-manager to write the caBundle.
INJECTED: Final = "cert-manager.io/inject-ca-from"


def injected_by_others(configuration: Manifest) -> bool:
    """Whether the caBundle is cert-manager's to write."""
    return INJECTED in (configuration["metadata"].get("annotations") or {})


def authorities_everywhere(
    configurations: Iterable[tuple[Registration, Manifest]], now: datetime
) -> frozenset[str] | None:
    """The fingerprints of authorities that every caBundle of ours holds; None where there is no webhook."""
    held = [
        {fingerprint(each) for each in authorities_in(_bundle_of(webhook), now)}
        for registration, configuration in configurations
        for _, webhook in _ours(registration, configuration)
    ]
    return frozenset.intersection(*map(frozenset, held)) if held else None


def corrections(registration: Registration, configuration: Manifest, bundle: bytes) -> list[Manifest]:
    """The operations of a JSON patch that put the caBundles right, if the object is still the same.

    None where they are.
    """
    wrong = [index for index, webhook in _ours(registration, configuration) if _bundle_of(webhook) != bundle]
    if not wrong:
        return []
    version = configuration["metadata"]["resourceVersion"]
    encoded = base64.b64encode(bundle).decode()
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        *(
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded}
            for index in wrong
        ),
    ]


def _ours(registration: Registration, configuration: Manifest) -> list[tuple[int, Manifest]]:
    listed = configuration.get("webhooks") or ()
    return [(index, each) for index, each in enumerate(listed) if each.get("name") in registration.webhooks]


def _bundle_of(webhook: Manifest) -> bytes:
    text = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""
