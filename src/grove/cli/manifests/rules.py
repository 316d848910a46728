"""What the operator may do, as rules of RBAC: exactly what `grove.cli.permissions` says that it needs.

In blocks: what it always needs, what each scheduler adds, what single settings add. An installation has the
blocks of what it enables, the chart all of them behind conditions. Pure: asks no cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from grove.api import kinds
from grove.api.config import LeaderElection, OperatorConfiguration
from grove.api.event import EVENTS
from grove.backends.base import Backend, Context, TopologyAware, traits_of
from grove.backends.registry import BUILT_INS
from grove.backends.sample import sample_of
from grove.cli.permissions import LEASES, Need, needed
from grove.controllers.schedulers.scheduling import CRDS, has_own_definition
from grove.meta import Manifest, Resource

#: The minors whose own gang API is known.
MINORS: Final = ("1.35", "1.36", "1.37")
#: Stands for the namespace of the installation while rules are made.
HERE: Final = "here"
_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
_CONFIG_MAPS: Final = "configmaps"

_TRUST: Final = "The authority of that certificate, written into Grove's own webhook configurations."
#: Why a rule is there, by resource; what is not listed is an object that Grove makes for a set.
_WHY: Final[Mapping[str, str]] = {
    str(kinds.CLIQUESETS): "The users' sets: read, and nothing but their metadata and status written.",
    str(kinds.TOPOLOGY_BINDINGS): "The cluster's topology, which administrators describe.",
    str(
        kinds.CONTROLLER_REVISIONS
    ): "The templates that replicas follow, and those that they can go back to.",
    str(kinds.SERVICE_ACCOUNTS): "Accounts that the Go operator made are removed when no pod uses them.",
    str(kinds.DISRUPTION_BUDGETS): "Only for sets that ask for disruption budgets.",
    str(kinds.ROLES): "Pods that start in order may watch those that they wait for; no more can be granted.",
    str(
        kinds.ROLE_BINDINGS
    ): "Pods that start in order may watch those that they wait for; no more can be granted.",
    str(
        kinds.RESOURCE_CLAIMS
    ): "Devices that pods share. Clusters before Kubernetes 1.34 do not serve these.",
    str(kinds.RESOURCE_CLAIM_TEMPLATES): "The templates of devices that pods share.",
    str(EVENTS): "What Grove tells, and what some schedulers tell of pods that wait.",
    str(LEASES): "The lease by which replicas elect a leader, and no other; what is created has no name yet.",
    str(CRDS): "Optional: without it the operator finds out by looking and by dry runs alone.",
    "secrets": "The certificate of the webhooks, in one Secret; what is created has no name yet.",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _TRUST,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _TRUST,
    _CONFIG_MAPS: "Optional: the scheduler's own configuration, by which a gang knows what will be refused.",
}
_OWNED: Final = "What Grove makes."
_LOOKED_AT: Final = "What others make and a backend looks at."
_STATUS: Final = "What Grove tells of its objects."
_FINALIZERS: Final = "To be named as owners: clusters with OwnerReferencesPermissionEnforcement ask for this."


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of one group, and why they are needed."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    why: str = ""

    def manifest(self) -> Manifest:
        found: Manifest = {"apiGroups": [self.group], "resources": list(self.resources)}
        if self.names:
            found["resourceNames"] = list(self.names)
        return {**found, "verbs": list(self.verbs)}


@dataclass(frozen=True, slots=True)
class Blocks:
    """The rules of the operator by what asks for them."""

    always: tuple[Rule, ...]
    #: By the name of the backend, without the one that is always enabled.
    backends: Mapping[str, tuple[Rule, ...]]
    nvlink: tuple[Rule, ...]
    webhooks: tuple[Rule, ...]
    #: In the namespace of the lease.
    lease: tuple[Rule, ...]
    #: In the namespace of the operator.
    certificates: tuple[Rule, ...]


def blocks(secret: str = "", lease: str = LeaderElection().resource_name) -> Blocks:
    """Every block; what a backend adds is what an operator with it needs more than one without.

    `secret` is the name of the Secret with the certificate of the webhooks, `lease` that of the Lease.
    """
    plain = _configuration(lease)
    default, *others = (make() for make in BUILT_INS.values())
    base = _needs(plain, [default])
    nvlink = _needs(plain, [default], domains=True)
    served = _needs(_configuration(lease, secret), [default])
    return Blocks(
        always=(
            *_rules(_everywhere(base)),
            Rule(CRDS.gvk.group, (CRDS.plural,), ("list", "watch"), why=_WHY[str(CRDS)]),
        ),
        backends={
            each.name: (*_rules(_more(_needs(plain, [default, each]), base)), *_optional(each))
            for each in others
        },
        nvlink=tuple(_rules(_more(nvlink, base))),
        webhooks=tuple(_rules(_everywhere(_more(served, base)))),
        lease=tuple(_rules(each for each in base if each.namespace)),
        certificates=tuple(_rules(each for each in _more(served, base) if each.namespace)),
    )


def rules_for(configuration: OperatorConfiguration, enabled: Iterable[str]) -> list[Manifest]:
    """The cluster-wide rules of an operator so configured, for the backends that it enables."""
    found = blocks(configuration.server.webhooks.secret_name)
    asked = [*found.always]
    for name in enabled:
        asked += found.backends.get(name, ())
    if configuration.network.auto_mnnvl_enabled:
        asked += found.nvlink
    if makes_certificate(configuration):
        asked += found.webhooks
    return [each.manifest() for each in asked]


def makes_certificate(configuration: OperatorConfiguration) -> bool:
    """Whether webhooks are served with a certificate that the operator makes itself."""
    webhooks = configuration.server.webhooks
    return webhooks.enabled is not False and webhooks.cert_provision_mode == "auto"


def _configuration(lease: str, secret: str = "") -> OperatorConfiguration:
    """A configuration with leader election; with the name of a Secret, webhooks with a certificate in it."""
    plain = OperatorConfiguration()
    election = msgspec.structs.replace(plain.leader_election, enabled=True, resource_name=lease)
    served = msgspec.structs.replace(plain.server.webhooks, enabled=bool(secret), secret_name=secret)
    server = msgspec.structs.replace(plain.server, webhooks=served)
    return msgspec.structs.replace(plain, leader_election=election, server=server)


def _needs(
    configuration: OperatorConfiguration, enabled: Iterable[Backend], *, domains: bool = False
) -> list[Need]:
    """What an operator with these backends needs, on whichever minor."""
    written: list[Resource] = []
    observed: list[Resource] = []
    told = False
    for backend in enabled:
        for minor in MINORS:
            context = Context(sample_of(backend.name).cluster(minor))
            traits = traits_of(backend, context)
            written += backend.resources(context)
            observed += [each.resource for each in traits.observes if not (each.namespace and each.name)]
            told = told or traits.events is not None
        if isinstance(backend, TopologyAware):
            written.append(backend.topology_resource)
    return needed(
        configuration,
        dict.fromkeys(written),
        namespace=HERE,
        observed=dict.fromkeys(observed),
        reads_events=told,
        serves=lambda each: domains or each != kinds.COMPUTE_DOMAINS,
    )


def _optional(backend: Backend) -> Iterator[Rule]:
    """What a backend looks at only if it may: single objects of others, and the definitions of its own."""
    context = Context(sample_of(backend.name).cluster(MINORS[-1]))
    single = [each for each in traits_of(backend, context).observes if each.namespace and each.name]
    if single:
        names = tuple(dict.fromkeys(each.name for each in single))
        yield Rule("", (_CONFIG_MAPS,), ("list", "watch"), names, _WHY[_CONFIG_MAPS])
    defined = tuple(str(each) for each in backend.resources(context) if has_own_definition(each))
    if defined:
        yield Rule(CRDS.gvk.group, (CRDS.plural,), ("get",), defined, _WHY[str(CRDS)])


def _more(needs: Iterable[Need], base: Iterable[Need]) -> list[Need]:
    known = set(base)
    return [each for each in needs if each not in known]


def _everywhere(needs: Iterable[Need]) -> list[Need]:
    return [each for each in needs if not each.namespace]


def _rules(needs: Iterable[Need]) -> Iterator[Rule]:
    """As few rules as there are groups, sets of verbs and reasons; in the order of the needs."""
    verbs: dict[tuple[Resource, str, str], list[str]] = {}
    for need in needs:
        verbs.setdefault((need.resource, need.subresource, need.name), []).append(need.verb)
    names: dict[tuple[Resource, str, tuple[str, ...]], list[str]] = {}
    for (resource, subresource, name), asked in verbs.items():
        ordered = tuple(str(verb) for verb in _VERBS if verb in asked)
        # What concerns single objects is a rule apart from what concerns all of a kind.
        key = (resource, f"{subresource}:" if name else subresource, ordered)
        names.setdefault(key, []).append(name)
    rules: dict[tuple[str, tuple[str, ...], tuple[str, ...], str], list[str]] = {}
    for (resource, subresource, ordered), listed in names.items():
        part = subresource.removesuffix(":")
        whole = f"{resource.plural}/{part}" if part else resource.plural
        group = (resource.gvk.group, ordered, tuple(filter(None, listed)), _why(resource, part, ordered))
        rules.setdefault(group, []).append(whole)
    for (api_group, ordered, listed_names, why), resources in rules.items():
        yield Rule(api_group, tuple(dict.fromkeys(resources)), ordered, listed_names, why)


def _why(resource: Resource, subresource: str, verbs: Iterable[str]) -> str:
    if subresource:
        return _FINALIZERS if subresource == "finalizers" else _STATUS
    return _WHY.get(str(resource), _OWNED if "create" in verbs else _LOOKED_AT)
