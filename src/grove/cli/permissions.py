"""Which permissions the operator needs, and which of them it lacks.

Asks the API server which rules hold for the operator (SelfSubjectRulesReview, one question a namespace), and
about each permission that no rule shows (SelfSubjectAccessReview); never tries a write to find out. Where the
server does not answer such questions, nothing counts as missing.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from grove.api import kinds
from grove.api.config import OperatorConfiguration
from grove.api.event import EVENTS
from grove.errors import ApiError, Unreachable
from grove.kube.client import Client
from grove.meta import Manifest, Resource, resource
from grove.plan.children import registry
from grove.webhook.certificates.configurations import CONFIGURATIONS, registrations
from grove.webhook.certificates.material import SECRETS

REVIEWS: Final = resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
LEASES: Final = resource("coordination.k8s.io", "v1", "Lease")
RULES: Final = resource(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False
)

_READ: Final = ("list", "watch")
_OWN: Final = ("list", "watch", "get", "create", "patch", "delete")
#: What owns others of our objects; each of them has a status.
_OWNERS: Final = (kinds.CLIQUESETS, kinds.SCALING_GROUPS, kinds.CLIQUES, kinds.GANGS)
#: Questions asked at the same time.
_AT_ONCE: Final = 16
#: No namespace can have this name, so that only rules for the whole cluster hold there.
_NO_NAMESPACE: Final = "-"


class Need(NamedTuple):
    """One verb on one resource; a blank namespace means everywhere, a blank name every object."""

    verb: str
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def target(self) -> str:
        """`pods/status`, `podgangs.scheduler.grove.io`, `secrets with name x`."""
        whole = f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)
        return f"{whole} with name {self.name}" if self.name else whole

    def attributes(self) -> Manifest:
        group, version, _ = self.resource.gvk
        asked = {
            "verb": self.verb,
            "group": group,
            "version": version,
            "resource": self.resource.plural,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {name: value for name, value in asked.items() if value}


def needed(
    configuration: OperatorConfiguration,
    scheduler_objects: Iterable[Resource],
    *,
    namespace: str,
    observed: Iterable[Resource] = (),
    reads_events: bool = False,
    serves: Callable[[Resource], bool] = lambda resource: True,
    only: str = "",
) -> list[Need]:
    """Everything that an operator so configured does in a cluster; of `observed` it only reads.

    `reads_events` says that a backend's scheduler tells its verdicts by events, `serves` which kinds of
    children the cluster has.

    With `only` it is the process of that backend, which makes no sets, cliques, pods or services.
    """
    if only:
        needs = _needed_by_backend(scheduler_objects, observed)
        return [*needs, *_lease_needs(configuration, namespace, only), *_event_needs(reads_events)]
    verbs: list[tuple[Resource, Sequence[str]]] = [
        (kinds.CLIQUESETS, (*_READ, "get", "patch")),
        (kinds.TOPOLOGY_BINDINGS, _READ),
        *((each, _OWN) for each in _children(serves) if each != kinds.SERVICE_ACCOUNTS),
        # Those that the Go operator made.
        (kinds.SERVICE_ACCOUNTS, (*_READ, "delete")),
        (kinds.PODS, _OWN),
        (EVENTS, ("create", "patch")),
    ]
    if serves(kinds.RESOURCE_CLAIMS):
        verbs.append((kinds.RESOURCE_CLAIM_TEMPLATES, _READ))
    written = list(scheduler_objects)
    verbs += [(each, _OWN) for each in written]
    verbs += [(each, _READ) for each in observed if each not in written]
    needs = [Need(verb, each) for each, listed in verbs for verb in listed]
    told = (*_OWNERS, kinds.TOPOLOGY_BINDINGS)
    needs += [Need("patch", each, "status") for each in told]
    needs += _owner_needs(written)
    needs += _certificate_needs(configuration, namespace)
    return [*needs, *_lease_needs(configuration, namespace), *_event_needs(reads_events)]


def _children(serves: Callable[[Resource], bool]) -> list[Resource]:
    """The kinds of children that sets have in a cluster."""
    found = [kind.resource for kind in registry.KINDS]
    return [each for each in found if each not in registry.OPTIONAL or serves(each)]


def _owner_needs(written: Sequence[Resource]) -> list[Need]:
    """Some clusters (OpenShift does) let only those name an owner who may also hold back its deletion."""
    owners = list(_OWNERS)
    if not all(each.namespaced for each in written):
        owners.append(kinds.TOPOLOGY_BINDINGS)
    return [Need("update", each, "finalizers") for each in owners]


def _needed_by_backend(written: Iterable[Resource], observed: Iterable[Resource]) -> list[Need]:
    children = (each for each in registry.MEMBERSHIP if each != kinds.GANGS)
    read = (kinds.CLIQUESETS, kinds.TOPOLOGY_BINDINGS, kinds.PODS, *children)
    kinds_written = list(written)
    objects = [each for each in kinds_written if each.namespaced]
    # Topology objects are the operator's to write.
    topologies = [each for each in kinds_written if not each.namespaced]
    verbs: list[tuple[Resource, Sequence[str]]] = [(each, _READ) for each in (*read, *topologies)]
    verbs += [(each, _READ) for each in observed if each not in kinds_written]
    verbs += [(kinds.GANGS, (*_READ, "get", "patch")), (EVENTS, ("create", "patch"))]
    verbs += [(each, _OWN) for each in objects]
    needs = [Need(verb, each) for each, listed in verbs for verb in listed]
    return [*needs, Need("patch", kinds.GANGS, "status"), Need("update", kinds.GANGS, "finalizers")]


def _event_needs(reads_events: bool) -> list[Need]:
    return [Need(verb, EVENTS) for verb in _READ] if reads_events else []


def _lease_needs(configuration: OperatorConfiguration, namespace: str, backend: str = "") -> list[Need]:
    """One Lease, of the operator or of the process of a backend; other programs elect leaders beside it."""
    election = configuration.leader_election
    if not election.enabled:
        return []
    where, name = election.resource_namespace or namespace, election.lease_name(backend)
    own = [Need(verb, LEASES, namespace=where, name=name) for verb in ("get", "update")]
    # What is created has no name yet, as far as permissions go.
    return [Need("create", LEASES, namespace=where), *own]


def _certificate_needs(configuration: OperatorConfiguration, namespace: str) -> list[Need]:
    """To keep a certificate of its own: one Secret, and the caBundles of Grove's webhook configurations.

    What is created has no name yet, as far as permissions go; what is listed and watched is one Secret, and
    all webhook configurations.
    """
    webhooks = configuration.server.webhooks
    if not webhooks.enabled or webhooks.cert_provision_mode != "auto":
        return []
    secret = [
        Need(verb, SECRETS, namespace=namespace, name=webhooks.secret_name)
        for verb in ("get", "list", "watch", "update")
    ]
    return [
        Need("create", SECRETS, namespace=namespace),
        *secret,
        *(Need(verb, each) for each in CONFIGURATIONS.values() for verb in _READ),
        *(Need(verb, each.resource, name=each.name) for each in registrations() for verb in ("get", "patch")),
    ]


async def missing(client: Client, needs: Sequence[Need]) -> list[Need]:
    """Those of the needs that the API server denies, in the same order."""
    places = sorted({need.namespace for need in needs})
    found = await asyncio.gather(*(_rules(client, place) for place in places))
    rules = dict(zip(places, found, strict=True))
    return await _denied(client, [need for need in needs if not covered(need, rules[need.namespace])])


def covered(need: Need, rules: Iterable[Manifest]) -> bool:
    """Whether one of the rules allows what is needed. That none does proves nothing.

    Some authorizers have no rules to show.
    """
    return any(_covers(rule, need) for rule in rules)


def _covers(rule: Manifest, need: Need) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("verbs"), need.verb)
        and _has(rule.get("apiGroups"), need.resource.gvk.group)
        and _names_resource(rule.get("resources") or (), need)
        and (not names or need.name in names)
    )


def _has(listed: Sequence[str] | None, wanted: str) -> bool:
    return listed is not None and (wanted in listed or "*" in listed)


def _names_resource(listed: Sequence[str], need: Need) -> bool:
    plural, part = need.resource.plural, need.subresource
    wanted = {"*", f"{plural}/{part}", f"*/{part}"} if part else {"*", plural}
    return not wanted.isdisjoint(listed)


async def _rules(client: Client, namespace: str) -> list[Manifest]:
    """The rules that hold in a namespace, or for the whole cluster; none where the server does not know all.

    An authorizer that cannot list its rules may deny what those of another allow.
    """
    review: Manifest = {
        "apiVersion": RULES.api_version,
        "kind": RULES.kind,
        "spec": {"namespace": namespace or _NO_NAMESPACE},
    }
    try:
        answer = await client.create(RULES, review, type=dict)
    except Unreachable:
        raise
    except ApiError:
        return []
    status = answer.get("status") or {}
    return [] if status.get("incomplete", True) else list(status.get("resourceRules") or ())


async def _denied(client: Client, needs: Sequence[Need]) -> list[Need]:
    """Those of the needs that the API server denies when it is asked about each."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def denied(need: Need) -> bool:
        async with slots:
            review: Manifest = {
                "apiVersion": REVIEWS.api_version,
                "kind": REVIEWS.kind,
                "spec": {"resourceAttributes": need.attributes()},
            }
            try:
                answer = await client.create(REVIEWS, review, type=dict)
            except Unreachable:
                raise
            except ApiError:
                return False
            return not (answer.get("status") or {}).get("allowed", True)

    denials = await asyncio.gather(*map(denied, needs))
    return [need for need, no in zip(needs, denials, strict=True) if no]


def sentence(denied: Sequence[Need]) -> str:
    """The missing permissions by resource: `pods (create, delete), podgangs.scheduler.grove.io (list)`."""
    by_target: dict[str, list[str]] = {}
    for need in denied:
        where = f" in namespace {need.namespace}" if need.namespace else ""
        by_target.setdefault(f"{need.target}{where}", []).append(need.verb)
    return ", ".join(f"{target} ({', '.join(verbs)})" for target, verbs in by_target.items())
