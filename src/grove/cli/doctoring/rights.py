"""What the operator may do in the cluster: asked for its account, or for whoever runs it by hand."""

import asyncio
from collections.abc import Sequence
from typing import Final

from grove.api.config import OperatorConfiguration, load
from grove.backends.base import Backend, Cluster, Context, TopologyAware
from grove.cli.doctoring.findings import Finding, failed, fine, unseen, warning
from grove.cli.doctoring.installation import Installation, Known
from grove.cli.permissions import Need, missing, needed, sentence
from grove.errors import Forbidden
from grove.extensions import registry_for
from grove.kube.client import Client
from grove.meta import Manifest, Resource, resource

REVIEWS: Final = resource("authorization.k8s.io", "v1", "SubjectAccessReview", namespaced=False)
_LINK: Final = "docs/guides/real-cluster.md#permissions"
_AT_ONCE: Final = 16


async def permissions(client: Client, installed: Installation, known: Known) -> Sequence[Finding]:
    """Whether the operator has every permission that it needs; without an operator, whether you have them."""
    configuration = known.configuration or load("")
    cluster = Cluster((await client.discover()).served)
    needs = needed(
        configuration,
        _written(configuration, cluster),
        namespace=installed.namespace or "default",
        serves=cluster.serves,
    )
    name = "permissions"
    if installed.deployment is None:
        denied = await missing(client, needs)
        if not denied:
            return [fine(name, f"you may do all {len(needs)} things that `grove run` needs")]
        return [
            warning(
                name,
                f"`grove run` as you are would lack {sentence(denied)}",
                fix="run the operator as somebody who may",
                link=_LINK,
            )
        ]
    try:
        denied = await _denied(client, installed.account, needs)
    except Forbidden:
        said = f"you may not ask what {installed.account} may do (create subjectaccessreviews)"
        return [unseen(name, said, fix="its /readyz names what it lacks", link=_LINK)]
    if denied:
        said = f"{installed.account} lacks {sentence(denied)}"
        return [failed(name, said, fix="apply the ClusterRole of this version", link=_LINK)]
    return [fine(name, f"{installed.account} may do all {len(needs)} things that it needs")]


def _written(configuration: OperatorConfiguration, cluster: Cluster) -> list[Resource]:
    """The kinds that the enabled backends write in this cluster."""
    found: list[Resource] = []
    for backend in registry_for(configuration.scheduler).enabled:
        found += _kinds_of(backend, cluster)
    return [each for each in dict.fromkeys(found) if cluster.serves(each)]


def _kinds_of(backend: Backend, cluster: Cluster) -> list[Resource]:
    found = list(backend.resources(Context(cluster)))
    if isinstance(backend, TopologyAware):
        found.append(backend.topology_resource)
    return found


async def _denied(client: Client, account: str, needs: Sequence[Need]) -> list[Need]:
    """Those of the needs that the API server denies an account."""
    slots = asyncio.Semaphore(_AT_ONCE)
    _, _, namespace, _ = account.split(":")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]

    async def denied(need: Need) -> bool:
        async with slots:
            review: Manifest = {
                "apiVersion": REVIEWS.api_version,
                "kind": REVIEWS.kind,
                "spec": {"user": account, "groups": groups, "resourceAttributes": need.attributes()},
            }
            answer = await client.create(REVIEWS, review, type=dict)
            return not (answer.get("status") or {}).get("allowed", True)

    answers = await asyncio.gather(*map(denied, needs))
    return [need for need, no in zip(needs, answers, strict=True) if no]
