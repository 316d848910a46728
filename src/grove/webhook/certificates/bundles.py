"""The caBundles of Grove's webhook configurations: which authorities they hold, what would put them right.

Pure. Only webhooks with names of ours in objects with names of ours are looked at; whatever else somebody
wrote into them stays as it is.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final

from grove.meta import Manifest, Resource, resource
from grove.webhook.certificates.inspection import authorities_in, fingerprint
from grove.webhook.registrations import ServedAt, desired_webhook_configurations

_GROUP: Final = "admissionregistration.k8s.io"
#: By kind, the resources of webhook configurations.
CONFIGURATIONS: Final[Mapping[str, Resource]] = {
    kind: resource(_GROUP, "v1", kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
#: Whoever sets it wants cert-manager to write the caBundle.
INJECTED: Final = "cert-manager.io/inject-ca-from"


@dataclass(frozen=True, slots=True)
class Registration:
    """A webhook configuration of ours, by its name, with the names of its webhooks."""

    resource: Resource
    name: str
    webhooks: frozenset[str]

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"


@cache
def registrations() -> tuple[Registration, ...]:
    """All that an installation may have."""
    desired = desired_webhook_configurations(ServedAt(""), authorizer=True)
    return tuple(
        Registration(
            CONFIGURATIONS[each["kind"]],
            each["metadata"]["name"],
            frozenset(webhook["name"] for webhook in each["webhooks"]),
        )
        for each in desired
    )


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
