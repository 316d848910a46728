"""What the operator may do in the cluster: asked for its account, or for whoever runs it by hand."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from grove.api import kinds
from grove.api.config import OperatorConfiguration, load
from grove.cli.doctoring.findings import Finding, failed, fine, unseen, warning
from grove.cli.doctoring.installation import Installation, Known
from grove.cli.operating import observed, written
from grove.cli.permissions import Need, missing, needed, sentence
from grove.cli.preconditions import discovered
from grove.errors import Forbidden
from grove.extensions import configs_for, external_in, registry_for
from grove.kube.client import Client
from grove.meta import Manifest, resource

REVIEWS: Final = resource("authorization.k8s.io", "v1", "SubjectAccessReview", namespaced=False)
_LINK: Final = "docs/guides/installation.md#permissions"
_AT_ONCE: Final = 16


async def permissions(client: Client, installed: Installation, known: Known) -> Sequence[Finding]:
    """Whether the operator has every permission that it needs; without an operator, whether you have them."""
    needs = await _needs(client, installed, known.configuration or load(""))
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
        finding = failed(name, said, fix="apply the ClusterRole of this version", link=_LINK)
        return [replace(finding, comes_with_upgrade=True)]
    return [fine(name, f"{installed.account} may do all {len(needs)} things that it needs")]


async def _needs(client: Client, installed: Installation, given: OperatorConfiguration) -> list[Need]:
    """What an operator so configured asks for at its start, in this cluster."""
    registry = registry_for(given.scheduler)
    configs, external = configs_for(registry, given.scheduler), external_in(registry, given.scheduler)
    scheduling = await discovered(registry, client, configs, external=external)
    unused = () if given.network.auto_mnnvl_enabled else (kinds.COMPUTE_DOMAINS,)
    webhooks = given.server.webhooks
    if webhooks.enabled is None:
        # In a pod they are served unless the configuration says otherwise.
        webhooks = msgspec.structs.replace(webhooks, enabled=installed.deployment is not None)
    server = msgspec.structs.replace(given.server, webhooks=webhooks)
    return needed(
        msgspec.structs.replace(given, server=server),
        written(scheduling),
        namespace=installed.namespace or "default",
        observed=observed(scheduling),
        reads_events=bool(scheduling.event_sources()),
        serves=lambda each: each not in unused and scheduling.cluster.serves(each),
    )


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
