"""Keeps others than the operator from editing what belongs to a set; off unless the configuration says so.

Of pods only what Grove depends on is protected: the spec of one that waits behind its gate, and of any pod
the gates, owners and Grove's own labels and annotations. Whatever goes may go.
"""

from collections.abc import Collection, Mapping
from typing import Final

from grove.api import labels
from grove.errors import ApiError, FieldError, InvalidConfiguration
from grove.kube.client import Client
from grove.meta import Key, Manifest, resource
from grove.webhook.registrations import ALWAYS_ALLOWED
from grove.webhook.review import ALLOWED, CREATE, DELETE, Answer, Request
from grove.webhook.surroundings import Surroundings

_SELF: Final = resource("authentication.k8s.io", "v1", "SelfSubjectReview", namespaced=False)
_PODS: Final = "pods"
_OURS: Final = ("grove.io/", "scheduler.grove.io/", "app.kubernetes.io/")
_WORDS: Final = {CREATE: "creation", DELETE: "deletion"}


async def own_user(client: Client) -> str:
    """The user as whom this process writes; raises InvalidConfiguration where the cluster does not tell."""
    asked = {"apiVersion": _SELF.api_version, "kind": _SELF.kind, "metadata": {}}
    try:
        reviewed = await client.create(_SELF, asked, type=dict)
    except ApiError as failure:
        raise InvalidConfiguration(
            "authorizer.enabled: the cluster does not tell under which user the operator writes, which would "
            f"be kept from its own objects: {failure}; name the service account in "
            "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME"
        ) from None
    return str(reviewed["status"]["userInfo"]["username"])


class Authorizer:
    """Says who may write the children of sets."""

    def __init__(self, known: Surroundings, *, operator: str, exempt: Collection[str] = ()) -> None:
        self._known = known
        self._allowed = frozenset({operator, *exempt, *ALWAYS_ALLOWED} - {""})

    async def authorize(self, request: Request) -> Answer:
        """Whether this user may write this object."""
        # Of an update the old object counts: nobody gets round the check by taking labels off.
        subject = request.object if request.operation == CREATE else request.old_object
        if subject is None or request.user in self._allowed or request.operation == "CONNECT":
            return ALLOWED
        metadata = _mapping(subject.get("metadata"))
        if metadata.get("deletionTimestamp"):
            return ALLOWED
        name = str(_mapping(metadata.get("labels")).get(labels.PART_OF) or "")
        cliqueset = self._known.cliqueset(Key(request.namespace, name)) if name else None
        if cliqueset is None:
            why = f"of PodCliqueSet {name!r}, which does not exist" if name else "of no PodCliqueSet"
            return Answer(warnings=(f"{request.resource.resource} {request.name} is {why}: not protected",))
        if cliqueset.terminating or cliqueset.annotations.get(labels.DISABLE_PROTECTION) == "true":
            return ALLOWED
        if request.resource.resource == _PODS and not _touches(subject, request.object):
            return ALLOWED
        return self._refusal(request, cliqueset.name)

    def _refusal(self, request: Request, cliqueset: str) -> Answer:
        what = _WORDS.get(request.operation, "updation")
        message = (
            f"admission denied, {what} of resource: {request.namespace}/{request.name} is not allowed: "
            f"{request.resource.resource} of PodCliqueSet {cliqueset!r} belong to the operator, and "
            f"{request.user!r} is not among authorizer.exemptServiceAccountUserNames; edit the set, or "
            f"annotate it with {labels.DISABLE_PROTECTION}: 'true'"
        )
        return Answer((FieldError("", message),), code=403)


def _touches(old: Manifest, new: Manifest | None) -> bool:
    """Whether an update of a pod changes what Grove depends on; a deletion does not."""
    if new is None:
        return False
    before, after = _mapping(old.get("spec")), _mapping(new.get("spec"))
    gates = before.get("schedulingGates") or after.get("schedulingGates")
    if gates and before != after:
        return True
    metadata, wanted = _mapping(old.get("metadata")), _mapping(new.get("metadata"))
    if (metadata.get("ownerReferences") or []) != (wanted.get("ownerReferences") or []):
        return True
    return any(_ours(metadata.get(kind)) != _ours(wanted.get(kind)) for kind in ("labels", "annotations"))


def _ours(entries: object) -> dict[str, object]:
    return {key: value for key, value in _mapping(entries).items() if str(key).startswith(_OURS)}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
