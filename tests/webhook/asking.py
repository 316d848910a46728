"""What an API server asks, put to the webhooks of an operator in a world; as it goes over the wire."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from grove.api import kinds
from grove.embedded.machinery.patch import json_patch
from grove.meta import Manifest, Resource
from grove.testing.world import OPERATOR, World
from grove.webhook.registrations import (
    DEFAULT_CLIQUESET,
    VALIDATE_CLIQUE,
    VALIDATE_CLIQUESET,
    VALIDATE_GANG,
    VALIDATE_SCALING_GROUP,
    VALIDATE_TOPOLOGY,
)
from grove.webhook.review import read, written
from grove.webhook.reviews import reviews_by_path
from grove.webhook.surroundings import Surroundings

PATHS: Mapping[Resource, str] = {
    kinds.CLIQUESETS: VALIDATE_CLIQUESET,
    kinds.TOPOLOGY_BINDINGS: VALIDATE_TOPOLOGY,
    kinds.CLIQUES: VALIDATE_CLIQUE,
    kinds.SCALING_GROUPS: VALIDATE_SCALING_GROUP,
    kinds.GANGS: VALIDATE_GANG,
}


@dataclass(frozen=True)
class Told:
    """The answer as an API server reads it."""

    allowed: bool
    message: str = ""
    code: int = 0
    causes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Manifest, ...] = field(default=())


def review(
    resource: Resource,
    new: Manifest | None,
    old: Manifest | None = None,
    *,
    user: str = "alice",
    operation: str = "",
    subresource: str = "",
) -> bytes:
    """An AdmissionReview, as JSON."""
    subject = (new if new is not None else old) or {}
    metadata = subject.get("metadata") or {}
    if not isinstance(metadata, dict):
        metadata = {}
    chosen = operation or ("CREATE" if old is None else "UPDATE" if new is not None else "DELETE")
    gvk = resource.gvk
    request: Manifest = {
        "uid": "11111111-2222-3333-4444-555555555555",
        "kind": {"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
        "resource": {"group": gvk.group, "version": gvk.version, "resource": resource.plural},
        "name": str(metadata.get("name") or ""),
        "namespace": "default" if resource.namespaced else "",
        "operation": chosen,
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": None,
    }
    if subresource:
        request["subResource"] = subresource
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def told(body: bytes) -> Told:
    """What a review says that came back."""
    response = json.loads(body)["response"]
    status = response.get("status") or {}
    causes = (status.get("details") or {}).get("causes") or ()
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else ()
    return Told(
        response["allowed"],
        status.get("message", ""),
        status.get("code", 0),
        tuple(f"{each['field']}: {each['message']}" for each in causes),
        tuple(response.get("warnings") or ()),
        tuple(patch),
    )


class Webhooks:
    """The webhooks of a world's operator."""

    def __init__(self, world: World) -> None:
        operator = world.operator
        assert operator is not None
        known = Surroundings(operator.cache, operator.scheduling, world.options.configuration)
        self._reviews = reviews_by_path(known, world._client(OPERATOR), OPERATOR.name)

    async def ask(self, path: str, body: bytes) -> Told:
        request = read(body)
        return told(written(request, await self._reviews[path](request)))

    async def validate(
        self, resource: Resource, new: Manifest | None, old: Manifest | None = None, subresource: str = ""
    ) -> Told:
        return await self.ask(PATHS[resource], review(resource, new, old, subresource=subresource))

    async def default(self, new: Manifest, old: Manifest | None = None) -> Manifest:
        """The set with the patch that the webhook answers."""
        found = await self.ask(DEFAULT_CLIQUESET, review(kinds.CLIQUESETS, new, old))
        assert found.allowed
        patched: Manifest = json_patch(new, list(found.patch))
        return patched
