"""Which ElasticQuota a pod counts against, and whether it exists.

The quota is a label of each pod, so roles of one gang may differ: the role's own word wins over that of the
gang (which mirrors its set), that over the set's, and that over the profile's. Without any, Koordinator takes
its default quota. Koordinator silently does so too for a quota that does not exist, and without the kind it
counts none at all; Grove waits instead.
"""

import re
from collections.abc import Iterator
from typing import Final

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.backends.base import Context
from grove.backends.koordinator.settings import Settings
from grove.errors import FieldError, Waiting
from grove.meta import Manifest, Object, resource

QUOTA: Final = "quota.scheduling.koordinator.sh/name"
QUOTAS: Final = resource("scheduling.sigs.k8s.io", "v1alpha1", "ElasticQuota")

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def quota_of(pod: Manifest, gang: PodGang, context: Context, settings: Settings) -> str:
    """The quota of a pod that is about to be created; empty for Koordinator's default."""
    metadata = pod.get("metadata") or {}
    own = [(metadata.get(kind) or {}).get(QUOTA) for kind in ("labels", "annotations")]
    return str(own[0] or own[1] or _shared(gang, context, settings))


def await_quotas(gang: PodGang, context: Context, settings: Settings) -> None:
    """Raises Waiting when a quota that the gang's pods name is known not to exist, or cannot."""
    named = {*_named_by_roles(context.cliqueset), _shared(gang, context, settings)} - {""}
    if named and not context.cluster.serves(QUOTAS):
        raise Waiting(
            f"the cluster does not serve {QUOTAS} in {QUOTAS.api_version}, so Koordinator would ignore the "
            f"quota {', '.join(sorted(named))}; install Koordinator's ElasticQuota or remove {QUOTA}"
        )
    known = context.observed.get(QUOTAS)
    if known is None:
        return
    missing = sorted(named - {*(str((each.get("metadata") or {}).get("name")) for each in known)})
    if missing:
        raise Waiting(
            f"ElasticQuota {', '.join(missing)} does not exist in any namespace, and Koordinator would count "
            f"the gang against its default quota; create it or correct {QUOTA}"
        )


def quota_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Quotas that cannot be the value of a label."""
    places: list[tuple[str, str]] = [("metadata", _named(cliqueset))]
    places += [
        (f"spec.template.cliques[{index}]", clique.labels.get(QUOTA) or clique.annotations.get(QUOTA) or "")
        for index, clique in enumerate(cliqueset.template.cliques)
    ]
    for path, quota in places:
        if quota and not _LABEL_VALUE.fullmatch(quota):
            yield FieldError(
                f"{path}.annotations[{QUOTA}]",
                f"{quota!r} is not a valid label value; quota names are pod labels",
            )


def _shared(gang: PodGang, context: Context, settings: Settings) -> str:
    cliqueset = context.cliqueset
    return _named(gang) or (_named(cliqueset) if cliqueset else "") or settings.quota


def _named(owner: Object) -> str:
    return owner.labels.get(QUOTA) or owner.annotations.get(QUOTA) or ""


def _named_by_roles(cliqueset: PodCliqueSet | None) -> Iterator[str]:
    for clique in cliqueset.template.cliques if cliqueset else ():
        yield clique.labels.get(QUOTA) or clique.annotations.get(QUOTA) or ""
