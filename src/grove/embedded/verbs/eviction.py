"""The subresource `eviction` of pods: a deletion that a disruption budget may refuse.

The server counts nothing itself: it believes the status that the disruption controller writes, and takes what
it allows from there, so that two evictions at once cannot both have the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from grove.embedded.errors import ApiError, Manifest, bad_request, forbidden
from grove.embedded.machinery.budgets import allowed, with_condition
from grove.embedded.machinery.options import DeleteOptions, WriteOptions
from grove.embedded.machinery.selectors import matches_label_selector
from grove.embedded.resource_type import ResourceType
from grove.embedded.verbs.api import API
from grove.embedded.verbs.deletion import Deletions

EVICTED: Final[Manifest] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
#: Sent with 201 all the same, as Kubernetes does: clients look at the status inside.
SEVERAL_BUDGETS: Final[Manifest] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support.",
    "code": 500,
}
_EVICTION: Final = ("policy", "v1", "Eviction")
REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
#: A budget that has allowed more evictions than this, none of which is seen yet, allows no more.
MOST_UNSEEN: Final = 2000


class Evictions:
    """Evicts pods; what it takes from a budget is written before the pod goes."""

    def __init__(self, api: API, deletions: Deletions) -> None:
        self._api = api
        self._deletions = deletions

    async def evict(self, namespace: str, name: str, eviction: Manifest, options: WriteOptions) -> Manifest:
        """Deletes a pod if its disruption budget has room; returns the status to answer with."""
        pods = self._resource("", "v1", "pods")
        if (eviction.get("metadata") or {}).get("name") != name:
            self._api.get(pods, namespace, name)
            raise bad_request("name in URL does not match name in Eviction object")
        eviction = await self._api.dynamic.admit_body(
            "CREATE", pods, (namespace, name), eviction, options, shape=_EVICTION
        )
        pod = self._api.get(pods, namespace, name).obj
        asked = eviction.get("deleteOptions") or {}
        preconditions = asked.get("preconditions") or {}
        deletion = DeleteOptions(
            grace_seconds=asked.get("gracePeriodSeconds"),
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            dry_run=options.dry_run or "All" in (asked.get("dryRun") or ()),
        )
        self._deletions.check_preconditions(pods, pod, deletion)
        if not _needs_no_budget(pod):
            budgets = self._budgets_of(pod)
            if len(budgets) > 1:
                return SEVERAL_BUDGETS
            for budget in budgets:
                self._take_from(budget, pod, dry_run=deletion.dry_run)
        if not deletion.dry_run:
            self._mark(pods, pod)
        # The version that was asked for is checked; by marking the pod it got another one.
        unversioned = replace(deletion, resource_version="")
        admitted = replace(options, admitted=True)
        await self._deletions.delete(pods, namespace, name, unversioned, admitted)
        return EVICTED

    def _budgets_of(self, pod: Manifest) -> list[Manifest]:
        labels = pod["metadata"].get("labels") or {}
        found = self._api.all_of("policy", "poddisruptionbudgets", pod["metadata"]["namespace"])
        return [
            budget
            for budget in found
            if labels and matches_label_selector((budget.get("spec") or {}).get("selector"), labels)
        ]

    def _take_from(self, budget: Manifest, pod: Manifest, *, dry_run: bool) -> None:
        """Takes one disruption from the budget, or refuses."""
        if not _is_ready(pod) and _lets_unhealthy_go(budget):
            return
        resource = self._resource("policy", "v1", "poddisruptionbudgets")
        _check(budget, resource)
        if dry_run:
            return
        status = budget["status"]
        name, now = pod["metadata"]["name"], self._api.now()
        left = status["disruptionsAllowed"] - 1
        taken = {
            **status,
            "disruptionsAllowed": left,
            "disruptedPods": {**(status.get("disruptedPods") or {}), name: now},
        }
        if not left:
            taken["conditions"] = with_condition(status.get("conditions") or (), allowed(budget, 0), now)
        self._api.commit(resource, _with_status(budget, taken), budget)

    def _mark(self, pods: ResourceType, pod: Manifest) -> None:
        """Says on the pod that it is evicted."""
        status = pod.get("status") or {}
        said = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        conditions = with_condition(status.get("conditions") or (), said, self._api.now())
        marked = _with_status(pod, {**status, "conditions": conditions})
        if marked != pod:
            self._api.commit(pods, marked, pod)

    def _resource(self, group: str, version: str, plural: str) -> ResourceType:
        found = self._api.catalog.registry.lookup(group, version, plural)
        assert found is not None
        return found


def _with_status(obj: Manifest, status: Manifest) -> Manifest:
    return {**obj, "metadata": {**obj["metadata"]}, "status": status}


def _needs_no_budget(pod: Manifest) -> bool:
    """A pod that does not run, or goes already, is no loss."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _lets_unhealthy_go(budget: Manifest) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    needed = int(status.get("desiredHealthy") or 0)
    return needed > 0 and int(status.get("currentHealthy") or 0) >= needed


def _check(budget: Manifest, resource: ResourceType) -> None:
    """Refuses where the budget has no room, or nobody knows whether it has."""
    meta, status = budget["metadata"], budget.get("status") or {}
    name, left = meta["name"], int(status.get("disruptionsAllowed") or 0)
    if int(status.get("observedGeneration") or 0) < int(meta.get("generation") or 0):
        raise _refusal(f"The disruption budget {name} is still being processed by the server.", after=10)
    if left < 0:
        raise forbidden(resource, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > MOST_UNSEEN:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(resource, name, why)
    if left:
        return
    needed, healthy = int(status.get("desiredHealthy") or 0), int(status.get("currentHealthy") or 0)
    if healthy > needed:
        raise _refusal(f"The disruption budget {name} does not allow evicting pods currently")
    raise _refusal(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")


def _refusal(why: str, *, after: int = 0) -> ApiError:
    details: Manifest = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if not after:
        return ApiError(429, "TooManyRequests", REFUSED, details)
    details["retryAfterSeconds"] = after
    return ApiError(429, "TooManyRequests", REFUSED, details, headers={"Retry-After": str(after)})


def _is_ready(pod: Manifest) -> bool:
    conditions: Iterable[Manifest] = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
