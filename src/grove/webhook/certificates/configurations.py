"""Grove's webhook configurations, by name: what an installation may have of them.

Imports no cryptography, which takes eight megabytes: whoever only asks for permissions does without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from grove.meta import Resource, resource
from grove.webhook.registrations import ServedAt, desired_webhook_configurations

_GROUP: Final = "admissionregistration.k8s.io"
#: By kind, the resources of webhook configurations.
CONFIGURATIONS: Final[Mapping[str, Resource]] = {
    kind: resource(_GROUP, "v1", kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


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
