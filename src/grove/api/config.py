"""OperatorConfiguration: the operator's configuration file, typed, with defaults, checked.

`load` raises InvalidConfiguration that names every wrong field; `unknown_keys` names the keys that nobody
reads, which are not an error: configurations written for another version must keep working. Reads no file
itself.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import yaml

from grove.api import durations
from grove.api.decode import decode, unknown_fields
from grove.api.schema import says
from grove.errors import FieldError, InvalidConfiguration, InvalidInput
from grove.meta import Manifest, View
from grove.words import YamlProblem, yaml_problem

API_VERSION: Final = "operator.config.grove.io/v1alpha1"
KIND: Final = "OperatorConfiguration"
DEFAULT_PROFILE: Final = "default-scheduler"
#: What the profile of Kubernetes' own scheduler may be called, which is always there.
_DEFAULT_NAMES: Final = (DEFAULT_PROFILE, "default")

LOG_LEVELS: Final = ("debug", "info", "error")
LOG_FORMATS: Final = ("json", "text")
CERT_MODES: Final = ("auto", "manual")
TRACKED: Final = "Tracked"
UNTRACKED: Final = "Untracked"
FIELD_OWNERSHIPS: Final = (TRACKED, UNTRACKED)


class ClientConnection(View):
    """How fast the operator may speak to the API server.

    How many writes are in flight is bounded elsewhere, and the API server is fair by itself: this is only
    there to end a loop that ran wild, so that it must be beyond what one operator can do in earnest.
    """

    qps: Annotated[float, says("Sustained requests per second; 0 means no limit.")] = 5000.0
    burst: Annotated[int, says("Burst of requests.")] = 10000
    content_type: Annotated[str, says("Accepted for compatibility; the operator speaks JSON.")] = ""
    accept_content_types: Annotated[str, says("Accepted for compatibility; the operator speaks JSON.")] = ""


class LeaderElection(View):
    """Which of several operators works."""

    enabled: Annotated[bool, says("Whether replicas of the operator elect a leader.")] = False
    lease_duration: Annotated[
        str,
        says(
            "How long a leader that does not renew keeps the lease. An installation has 7s, and the other "
            "two times to match, so that the work of a leader that was killed goes on within ten seconds."
        ),
    ] = "15s"
    renew_deadline: Annotated[str, says("How long a leader tries to renew before it gives up.")] = "10s"
    retry_period: Annotated[str, says("How often to try to acquire or renew the lease.")] = "2s"
    resource_lock: Annotated[str, says("Kind of the lock; leases.")] = "leases"
    resource_name: Annotated[str, says("Name of the Lease.")] = "grove-operator-leader-election"
    resource_namespace: Annotated[str, says("Namespace of the Lease; the operator's own when blank.")] = ""

    def lease_name(self, backend: str = "") -> str:
        """The Lease of the operator, or of the process that acts for one backend."""
        return f"{self.resource_name}-{backend}" if backend else self.resource_name

    @property
    def lease_seconds(self) -> float:
        return durations.parse(self.lease_duration).total_seconds()

    @property
    def renew_seconds(self) -> float:
        return durations.parse(self.renew_deadline).total_seconds()

    @property
    def retry_seconds(self) -> float:
        return durations.parse(self.retry_period).total_seconds()


class WebhookServer(View):
    """Where admission webhooks are served and with which certificate."""

    enabled: Annotated[
        bool | None,
        says(
            "Whether webhooks are served; when left out, where the operator runs in a pod and not elsewhere."
        ),
    ] = None
    bind_address: Annotated[
        str, says("Address; when blank the loopback, and every address where the operator runs in a pod.")
    ] = ""
    port: Annotated[int, says("Port.")] = 2750
    server_cert_dir: Annotated[str, says("Folder of tls.crt and tls.key.")] = (
        "/etc/grove-operator/webhook-certs"
    )
    secret_name: Annotated[str, says("Secret that holds the certificate.")] = "grove-webhook-server-cert"
    cert_provision_mode: Annotated[
        str,
        says(
            "Whether the operator makes the certificate (auto) or finds it (manual).", enum=list(CERT_MODES)
        ),
    ] = "auto"


class HealthServer(View):
    """Where /healthz and /readyz are served."""

    bind_address: Annotated[
        str, says("Address; when blank the loopback, and every address where the operator runs in a pod.")
    ] = ""
    port: Annotated[int, says("Port.")] = 2751


class MetricsServer(View):
    """Where /metrics is served."""

    bind_address: Annotated[
        str, says("Address; when blank the loopback, and every address where the operator runs in a pod.")
    ] = ""
    port: Annotated[int, says("Port; with that of the probes, one server serves both.")] = 2752


class Server(View):
    """What the operator serves."""

    webhooks: Annotated[WebhookServer, says("Admission webhooks.")] = WebhookServer()
    health_probes: Annotated[HealthServer, says("Health probes.")] = HealthServer()
    metrics: Annotated[MetricsServer, says("Prometheus metrics.")] = MetricsServer()


class Debugging(View):
    """The Go runtime's profiles, of which this operator has none."""

    enable_profiling: Annotated[bool, says("Accepted for compatibility; no profiles are served.")] = False
    pprof_bind_host: Annotated[str, says("Accepted for compatibility; nothing is opened.")] = "127.0.0.1"
    pprof_bind_port: Annotated[int, says("Accepted for compatibility; nothing is opened.")] = 2753


class SetController(View):
    """The controller of sets."""

    concurrent_syncs: Annotated[int, says("Objects of one namespace worked on at once.")] = 10


class CliqueController(View):
    """The controller of cliques."""

    concurrent_syncs: Annotated[int, says("Objects of one namespace worked on at once.")] = 64


class GroupController(View):
    """The controller of scaling groups."""

    concurrent_syncs: Annotated[int, says("Objects of one namespace worked on at once.")] = 5


class GangController(View):
    """The controller of gangs."""

    concurrent_syncs: Annotated[int, says("Objects of one namespace worked on at once.")] = 64


class Controllers(View):
    """How much each controller does at once."""

    pod_clique_set: Annotated[SetController, says("Sets.")] = SetController()
    pod_clique: Annotated[CliqueController, says("Cliques.")] = CliqueController()
    pod_clique_scaling_group: Annotated[GroupController, says("Scaling groups.")] = GroupController()
    pod_gang: Annotated[GangController, says("Gangs.")] = GangController()


class Limits(View):
    """What one set may ask for, so that a mistyped number harms nobody else."""

    pods_per_set: Annotated[int, says("Pods of one PodCliqueSet, all replicas and roles together.")] = 10_000


class StartupOrder(View):
    """How pods are made to wait for one another."""

    image: Annotated[
        str,
        says(
            "Image of the init container that waits; the operator's version is its tag unless it has one. "
            "The environment variable GROVE_INIT_CONTAINER_IMAGE of the operator comes first."
        ),
    ] = "grove-initc"


class Authorizer(View):
    """Protection of what Grove manages against other writers."""

    enabled: Annotated[bool, says("Whether writes by others are refused.")] = False
    exempt_service_account_user_names: Annotated[
        tuple[str, ...], says("Users that may write nevertheless.")
    ] = ()


class TopologyAwareScheduling(View):
    """Pack constraints."""

    enabled: Annotated[bool, says("Whether topology constraints are allowed.")] = False


class Network(View):
    """Multi-node NVLink."""

    auto_mnnvl_enabled: Annotated[bool, says("Whether grove.io/mnnvl-group makes ComputeDomains.")] = (
        msgspec.field(default=False, name="autoMNNVLEnabled")
    )


class Profile(View):
    """A scheduler that may be used, and the configuration of its backend."""

    name: Annotated[
        str, says("The name of a backend, or a schedulerName that it answers to.", required=True)
    ] = ""
    config: Annotated[Manifest, says("Handed to the backend as it is.")] = msgspec.field(default_factory=dict)
    external: Annotated[
        bool,
        says("Whether a deployment of its own (grove backend run) acts on the gangs of this backend."),
    ] = False


class Scheduler(View):
    """Which schedulers may be used and which one is used when a set names none."""

    profiles: Annotated[tuple[Profile, ...], says("Enabled schedulers; default-scheduler always is.")] = ()
    default_profile_name: Annotated[str, says("Used when a set names no scheduler.")] = ""


class OperatorConfiguration(View):
    """Everything that an installation decides about the operator."""

    api_version: Annotated[str, says(API_VERSION)] = API_VERSION
    kind: Annotated[str, says(KIND)] = KIND
    runtime_client_connection: Annotated[ClientConnection, says("Limits towards the API server.")] = (
        ClientConnection()
    )
    leader_election: Annotated[LeaderElection, says("Leader election.")] = LeaderElection()
    server: Annotated[Server, says("Servers.")] = Server()
    debugging: Annotated[Debugging, says("Profiling; accepted for compatibility.")] = Debugging()
    controllers: Annotated[Controllers, says("Concurrency.")] = Controllers()
    limits: Annotated[Limits, says("Limits for what users ask for.")] = Limits()
    startup_order: Annotated[StartupOrder, says("Startup order.")] = StartupOrder()
    log_level: Annotated[str, says("How much is logged.", enum=list(LOG_LEVELS))] = "info"
    log_format: Annotated[str, says("How it is logged.", enum=list(LOG_FORMATS))] = "json"
    field_ownership: Annotated[
        str,
        says(
            "Whether API servers record who manages which field of pods and gangs. Untracked clears the "
            "record when a gang lists its pods and when a gate opens, which makes later writes cheaper.",
            enum=list(FIELD_OWNERSHIPS),
        ),
    ] = TRACKED
    authorizer: Annotated[Authorizer, says("Protection of managed objects.")] = Authorizer()
    topology_aware_scheduling: Annotated[TopologyAwareScheduling, says("Pack constraints.")] = (
        TopologyAwareScheduling()
    )
    network: Annotated[Network, says("Multi-node NVLink.")] = Network()
    scheduler: Annotated[Scheduler, says("Schedulers.")] = Scheduler()


@dataclass(frozen=True, slots=True)
class _Check:
    """One rule about one value."""

    holds: bool
    field: str
    message: str


class NotYaml(InvalidConfiguration):
    """The text is neither YAML nor JSON; whoever knows the file's name names it."""

    def __init__(self, problem: YamlProblem) -> None:
        self.problem = problem
        super().__init__(problem.at("the operator's configuration"))


def load(text: str, *, known_profiles: Collection[str] | None = None) -> OperatorConfiguration:
    """The configuration that YAML or JSON text describes, with defaults.

    `known_profiles` are the names that a profile may have, of schedulers and backends; None allows any.
    """
    configuration, errors = examine(text, known_profiles=known_profiles)
    if errors:
        raise refusal(errors)
    return configuration


def examine(
    text: str, *, known_profiles: Collection[str] | None = None
) -> tuple[OperatorConfiguration, list[FieldError]]:
    """The configuration as far as it can be read, and everything that is wrong with it.

    A field that cannot be read counts as left out, so that one look finds the mistakes in the others too.
    Raises InvalidConfiguration for a text that has no fields.
    """
    document = _parse(text)
    errors = list(_header_errors(document)) if document else []
    decoded, unreadable = _decoded(document)
    errors += unreadable
    configuration = _defaulted(decoded)
    named = {error.field for error in errors}
    rules = validate(configuration, known_profiles=known_profiles)
    return configuration, [*errors, *(error for error in rules if error.field not in named)]


def refusal(errors: Sequence[FieldError]) -> InvalidConfiguration:
    """The error that names all of these."""
    listed = "; ".join(map(str, errors))
    return InvalidConfiguration(f"the operator's configuration is not valid: {listed}", errors)


def unknown_keys(text: str) -> list[FieldError]:
    """The keys of the text that nobody reads; what is in a profile's `config` is its backend's to judge."""
    return list(unknown_fields(_parse(text), OperatorConfiguration))


def without_effect(configuration: OperatorConfiguration) -> Iterator[FieldError]:
    """What is asked for with a key of the Go operator, and cannot be had here."""
    if configuration.debugging.enable_profiling:
        yield FieldError(
            "debugging.enableProfiling",
            "nothing is served: the profiles are the Go runtime's, which this operator does not have",
        )


def validate(
    configuration: OperatorConfiguration, *, known_profiles: Collection[str] | None = None
) -> Iterator[FieldError]:
    """Everything wrong with a configuration, field by field."""
    checks = [
        *_log_checks(configuration),
        *_ownership_checks(configuration),
        *_client_checks(configuration.runtime_client_connection),
        *_election_checks(configuration.leader_election),
        *_server_checks(configuration),
        *_controller_checks(configuration.controllers),
        *_limit_checks(configuration.limits),
        *_scheduler_checks(configuration.scheduler, known_profiles),
    ]
    return (FieldError(check.field, check.message) for check in checks if not check.holds)


def _parse(text: str) -> Manifest:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NotYaml(yaml_problem(error)) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidConfiguration("the operator's configuration must be a mapping of fields to values")
    return document


def _header_errors(document: Manifest) -> Iterator[FieldError]:
    for field, want in (("apiVersion", API_VERSION), ("kind", KIND)):
        got = document.get(field)
        if got != want:
            yield FieldError(field, f"must be {want}; {f'got {got!r}' if got else 'it is missing'}")


def _decoded(document: Manifest) -> tuple[OperatorConfiguration, list[FieldError]]:
    """What can be read of a document, and what cannot."""
    errors: list[FieldError] = []
    left = {field: value for field, value in document.items() if field not in ("apiVersion", "kind")}
    while True:
        try:
            return decode(left, OperatorConfiguration), errors
        except InvalidInput as error:
            errors += error.errors
            before = left
            for wrong in error.errors:
                left = _left_out(left, wrong.field.partition("[")[0].split("."))
            if left == before:
                return OperatorConfiguration(), errors


def _left_out(document: Manifest, path: Sequence[str]) -> Manifest:
    """The document without what stands at a path, or without the section where the path ends early."""
    first, rest = path[0], path[1:]
    inner = document.get(first)
    if rest and isinstance(inner, dict):
        return {**document, first: _left_out(inner, rest)}
    return {field: value for field, value in document.items() if field != first}


def _defaulted(configuration: OperatorConfiguration) -> OperatorConfiguration:
    """Profiles always contain the default scheduler, and one of them is the default."""
    scheduler = configuration.scheduler
    profiles = scheduler.profiles
    if all(profile.name not in _DEFAULT_NAMES for profile in profiles):
        profiles = (*profiles, Profile(name=DEFAULT_PROFILE))
    name = scheduler.default_profile_name or DEFAULT_PROFILE
    return msgspec.structs.replace(
        configuration, scheduler=Scheduler(profiles=profiles, default_profile_name=name)
    )


def _one_of(value: str, allowed: Collection[str], field: str) -> _Check:
    return _Check(value in allowed, field, f"must be one of {', '.join(allowed)}; got {value!r}")


def _log_checks(configuration: OperatorConfiguration) -> Iterator[_Check]:
    yield _one_of(configuration.log_level, LOG_LEVELS, "logLevel")
    yield _one_of(configuration.log_format, LOG_FORMATS, "logFormat")


def _ownership_checks(configuration: OperatorConfiguration) -> Iterator[_Check]:
    yield _one_of(configuration.field_ownership, FIELD_OWNERSHIPS, "fieldOwnership")


def _client_checks(client: ClientConnection) -> Iterator[_Check]:
    yield _Check(
        client.burst >= 0, "runtimeClientConnection.burst", f"must not be negative; got {client.burst}"
    )
    yield _Check(client.qps >= 0, "runtimeClientConnection.qps", f"must not be negative; got {client.qps:g}")


def _election_checks(election: LeaderElection) -> Iterator[_Check]:
    if not election.enabled:
        return
    seconds = {}
    for field, text in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        try:
            seconds[field] = durations.parse(text).total_seconds()
        except ValueError as error:
            yield _Check(False, f"leaderElection.{field}", str(error))
        else:
            yield _Check(seconds[field] > 0, f"leaderElection.{field}", f"must be greater than 0; got {text}")
    if len(seconds) == 3:
        yield _Check(
            seconds["leaseDuration"] > seconds["renewDeadline"],
            "leaderElection.leaseDuration",
            f"must be greater than renewDeadline ({election.renew_deadline}); got {election.lease_duration}",
        )
    yield _one_of(election.resource_lock, ("leases",), "leaderElection.resourceLock")
    yield _Check(bool(election.resource_name), "leaderElection.resourceName", "is required")


def _server_checks(configuration: OperatorConfiguration) -> Iterator[_Check]:
    server = configuration.server
    yield _one_of(server.webhooks.cert_provision_mode, CERT_MODES, "server.webhooks.certProvisionMode")
    for field, port in (
        ("server.webhooks.port", server.webhooks.port),
        ("server.healthProbes.port", server.health_probes.port),
        ("server.metrics.port", server.metrics.port),
        ("debugging.pprofBindPort", configuration.debugging.pprof_bind_port),
    ):
        yield _Check(0 <= port <= 65535, field, f"must be a port between 0 and 65535; got {port}")


def _controller_checks(controllers: Controllers) -> Iterator[_Check]:
    for field, syncs in (
        ("podCliqueSet", controllers.pod_clique_set.concurrent_syncs),
        ("podClique", controllers.pod_clique.concurrent_syncs),
        ("podCliqueScalingGroup", controllers.pod_clique_scaling_group.concurrent_syncs),
        ("podGang", controllers.pod_gang.concurrent_syncs),
    ):
        yield _Check(
            syncs > 0, f"controllers.{field}.concurrentSyncs", f"must be greater than 0; got {syncs}"
        )


def _limit_checks(limits: Limits) -> Iterator[_Check]:
    yield _Check(
        limits.pods_per_set > 0, "limits.podsPerSet", f"must be greater than 0; got {limits.pods_per_set}"
    )


def _scheduler_checks(scheduler: Scheduler, known: Collection[str] | None) -> Iterator[_Check]:
    # Which backend a profile means, and whether two mean the same, the backends themselves decide.
    for index, profile in enumerate(scheduler.profiles):
        field = f"scheduler.profiles[{index}].name"
        yield _Check(bool(profile.name), field, "is required")
        if known is not None and profile.name:
            yield _one_of(profile.name, sorted(known), field)
