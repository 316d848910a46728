"""The values of an installation: typed, with defaults, the same for the Helm chart and `grove install`.

From these types `scripts/chart.py` writes the chart's values.yaml, its schema and the reference page. A key
that nobody reads is refused, with its path.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec
import yaml

from grove.api.config import API_VERSION, KIND, OperatorConfiguration, load
from grove.api.crd import schema_of
from grove.api.decode import decode
from grove.api.labels import MANAGER
from grove.api.schema import says
from grove.backends.registry import BUILT_INS
from grove.cli.links import ADDRESS, checked
from grove.errors import InvalidConfiguration, InvalidInput
from grove.meta import Manifest, View
from grove.words import yaml_problem

_TEXTS: Final[Manifest] = {"type": "object", "additionalProperties": {"type": "string"}}
#: What selects the operator's pods, as in the Go operator's chart: a Deployment keeps its selector.
SELECTOR: Final = {
    "app.kubernetes.io/name": MANAGER,
    "app.kubernetes.io/component": "operator-deployment",
    "app.kubernetes.io/part-of": "grove",
}


class Image(View):
    """A container image."""

    repository: Annotated[str, says("Its name with the registry; there is no published image.")] = MANAGER
    tag: Annotated[
        str, says("A tag, or a digest (sha256:...), which is better; blank for the version of the chart.")
    ] = ""
    pull_policy: Annotated[str, says("When nodes pull it.", enum=["Always", "IfNotPresent", "Never"])] = (
        "IfNotPresent"
    )


class InitImage(View):
    """The image of the init container that makes pods start in order."""

    repository: Annotated[str, says("Its name with the registry; the base name must stay grove-initc.")] = (
        "grove-initc"
    )
    tag: Annotated[str, says("A tag; blank for the operator's version.")] = ""


class PriorityClass(View):
    """The priority of the operator's own pods."""

    enabled: Annotated[
        bool, says("Whether a PriorityClass is made, so that workloads do not preempt the operator.")
    ] = True
    name: Annotated[str, says("Its name; where it is not made, that of a class that exists, or blank.")] = (
        "grove-operator-priority-critical"
    )
    value: Annotated[int, says("The priority, below those of the cluster's own components.")] = 999_999_550


class Switch(View):
    """Something that is made or not."""

    enabled: Annotated[bool, says("Whether it is made.")] = True


class Service(View):
    """The Service in front of webhooks and metrics."""

    type: Annotated[str, says("Its type.", enum=["ClusterIP", "NodePort", "LoadBalancer"])] = "ClusterIP"
    annotations: Annotated[dict[str, str], says("Annotations.", schema=_TEXTS)] = msgspec.field(
        default_factory=dict
    )


class Definitions(View):
    """The CustomResourceDefinitions."""

    install: Annotated[
        bool,
        says(
            "Whether they are part of the installation and upgraded with it; otherwise install them with "
            "`grove crds | kubectl apply --server-side -f -`. An upgrade to false is refused unless one "
            "before it set keepWorkloads: Helm would delete those of the release, and so every set."
        ),
    ] = True


class Permissions(View):
    """Roles."""

    user_roles: Annotated[
        bool, says("Whether grove-view and grove-edit are made and added to view, edit and admin.")
    ] = True
    extra_rules: Annotated[
        tuple[Manifest, ...],
        says("Further rules for the operator, such as those of a third party's backend."),
    ] = ()


class Webhooks(View):
    """How API servers find the admission webhooks; whether they are served says config.server.webhooks."""

    url: Annotated[
        str, says("Where they are served outside of the cluster, for developers; blank for the Service.")
    ] = ""
    ca_bundle: Annotated[
        str,
        says("With manual certificates: the CA in base64. Otherwise the operator writes it, leave it blank."),
    ] = ""
    annotations: Annotated[
        dict[str, str],
        says("Annotations of the configurations, for tools that write the CA bundle.", schema=_TEXTS),
    ] = msgspec.field(default_factory=dict)


class NetworkPolicy(View):
    """Who may reach the operator."""

    enabled: Annotated[
        bool, says("Whether only the ports of webhooks, probes and metrics can be reached.")
    ] = True
    metrics_from: Annotated[
        tuple[Manifest, ...], says("Peers that may reach the metrics' port; everybody if there is none.")
    ] = ()
    egress: Annotated[
        tuple[Manifest, ...],
        says("Rules for what the operator may reach, the API server at least; no limit if there is none."),
    ] = ()


class FlowControl(View):
    """The operator's share of the API server (API Priority and Fairness)."""

    enabled: Annotated[
        bool,
        says(
            "Whether the operator's requests have a priority level of their own, so that many of them "
            "at once delay nobody else's."
        ),
    ] = True
    shares: Annotated[
        int,
        says(
            "How much of the API server's concurrency that is (nominalConcurrencyShares); Kubernetes' own "
            "levels have 245 together, that of all other service accounts 100 of them.",
            minimum=1,
        ),
    ] = 30


class ServiceMonitor(View):
    """How the Prometheus operator finds the metrics."""

    enabled: Annotated[bool, says("Whether a ServiceMonitor is made; its kind must be installed.")] = False
    interval: Annotated[str, says("How often metrics are read.")] = "30s"
    labels: Annotated[dict[str, str], says("Labels by which a Prometheus selects it.", schema=_TEXTS)] = (
        msgspec.field(default_factory=dict)
    )


class PrometheusRule(View):
    """The alerts."""

    enabled: Annotated[bool, says("Whether a PrometheusRule is made; its kind must be installed.")] = False
    labels: Annotated[dict[str, str], says("Labels by which a Prometheus selects it.", schema=_TEXTS)] = (
        msgspec.field(default_factory=dict)
    )


class Dashboard(View):
    """The Grafana dashboard."""

    enabled: Annotated[bool, says("Whether a ConfigMap with the dashboard is made.")] = False
    labels: Annotated[dict[str, str], says("Labels by which Grafana finds it.", schema=_TEXTS)] = (
        msgspec.field(default_factory=lambda: {"grafana_dashboard": "1"})
    )


class Metrics(View):
    """What is made for monitoring."""

    service_monitor: Annotated[ServiceMonitor, says("For the Prometheus operator.")] = ServiceMonitor()
    prometheus_rule: Annotated[PrometheusRule, says("For the Prometheus operator.")] = PrometheusRule()
    dashboard: Annotated[Dashboard, says("For Grafana.")] = Dashboard()


def _resources() -> Manifest:
    return {
        "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "128Mi"},
        "limits": {"memory": "1Gi"},
    }


def _spread() -> tuple[Manifest, ...]:
    return (
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(SELECTOR)},
        },
    )


def _config() -> Manifest:
    """The operator's configuration, as it is in an installation."""
    return {
        "logLevel": "info",
        "logFormat": "json",
        "leaderElection": {
            "enabled": True,
            # Shorter than by default, so that the work of a leader that was killed goes on within ten
            # seconds: a lease runs out its duration after another replica saw it renewed, and that one looks
            # every 1.2 periods at the latest.
            "leaseDuration": "7s",
            "renewDeadline": "5s",
            "retryPeriod": "1s",
            "resourceName": "grove-operator-leader-election",
        },
        "server": {
            "webhooks": {
                "enabled": True,
                "port": 9443,
                "secretName": "grove-webhook-server-cert",
                "serverCertDir": "/etc/grove-operator/webhook-certs",
                "certProvisionMode": "auto",
            },
            "healthProbes": {"port": 9444},
            "metrics": {"port": 9445},
        },
        "authorizer": {"enabled": False},
        "network": {"autoMNNVLEnabled": False},
        "topologyAwareScheduling": {"enabled": True},
        "scheduler": {
            "profiles": [{"name": make().scheduler_name} for make in BUILT_INS.values()],
            "defaultProfileName": next(iter(BUILT_INS.values()))().scheduler_name,
        },
    }


class Values(View):
    """Everything that can be decided about an installation."""

    replica_count: Annotated[
        int, says("Replicas of the operator; one leads, the others stand by.", minimum=1)
    ] = 2
    image: Annotated[Image, says("The operator's image.")] = Image()
    init_image: Annotated[InitImage, says("The image of the init container of pods that start in order.")] = (
        InitImage()
    )
    image_pull_secrets: Annotated[
        tuple[Manifest, ...], says("Secrets for the registry, as in a pod: a list of names.")
    ] = ()
    crds: Annotated[Definitions, says("The CustomResourceDefinitions.")] = Definitions()
    keep_workloads: Annotated[
        bool,
        says(
            "Whether `helm uninstall` leaves the CustomResourceDefinitions, and so sets, gangs and pods. "
            "If not, every set and its pods go with the installation, unless crds.install is false."
        ),
    ] = False
    rbac: Annotated[Permissions, says("Roles.")] = Permissions()
    webhooks: Annotated[Webhooks, says("How API servers find the admission webhooks.")] = Webhooks()
    service: Annotated[Service, says("The Service in front of webhooks and metrics.")] = Service()
    resources: Annotated[Manifest, says("Requests and limits of the operator's container.")] = msgspec.field(
        default_factory=_resources
    )
    env: Annotated[tuple[Manifest, ...], says("Further environment variables of the operator.")] = ()
    node_selector: Annotated[dict[str, str], says("Which nodes the operator may run on.", schema=_TEXTS)] = (
        msgspec.field(default_factory=dict)
    )
    tolerations: Annotated[tuple[Manifest, ...], says("Taints that the operator tolerates.")] = ()
    affinity: Annotated[Manifest, says("Affinity of the operator's pods.")] = msgspec.field(
        default_factory=dict
    )
    topology_spread_constraints: Annotated[
        tuple[Manifest, ...], says("How replicas spread; by default over nodes where that is possible.")
    ] = msgspec.field(default_factory=_spread)
    pod_annotations: Annotated[dict[str, str], says("Annotations of the operator's pods.", schema=_TEXTS)] = (
        msgspec.field(default_factory=dict)
    )
    pod_labels: Annotated[dict[str, str], says("Further labels of the operator's pods.", schema=_TEXTS)] = (
        msgspec.field(default_factory=dict)
    )
    priority_class: Annotated[PriorityClass, says("The priority of the operator's own pods.")] = (
        PriorityClass()
    )
    pod_disruption_budget: Annotated[
        Switch, says("A budget that lets drains evict one replica of the operator at a time.")
    ] = Switch()
    network_policy: Annotated[NetworkPolicy, says("Who may reach the operator.")] = NetworkPolicy()
    flow_control: Annotated[
        FlowControl, says("The operator's share of the API server (API Priority and Fairness).")
    ] = FlowControl()
    metrics: Annotated[Metrics, says("What is made for monitoring.")] = Metrics()
    documentation_url: Annotated[
        str,
        says(
            "Address that is put before the links of alerts to their runbooks, docs/guides/runbooks.md: that "
            "of the folder which has docs in it. Blank for links as they are in the repository.",
            pattern=ADDRESS,
        ),
    ] = ""
    config: Annotated[
        Manifest,
        says(
            "The operator's configuration: every field of OperatorConfiguration.",
            schema=schema_of(OperatorConfiguration),
        ),
    ] = msgspec.field(default_factory=_config)
    # Charts that contain this one hand it to all of their parts.
    global_: Annotated[Manifest, says("Not read.")] = msgspec.field(default_factory=dict, name="global")

    @property
    def configuration(self) -> OperatorConfiguration:
        """What the operator will read; raises InvalidConfiguration that names the field."""
        return load(yaml.safe_dump(self.document))

    @property
    def serves_webhooks(self) -> bool:
        """Whether the operator serves webhooks: in a pod it does unless it is told not to."""
        return self.configuration.server.webhooks.enabled is not False

    @property
    def document(self) -> Manifest:
        """The configuration file."""
        return {**self.config, "apiVersion": API_VERSION, "kind": KIND}


def defaults() -> Manifest:
    """The values of an installation that decides nothing itself."""
    found: Manifest = msgspec.to_builtins(Values())
    del found["global"]
    return found


def values_from(*overrides: Manifest) -> Values:
    """The defaults, changed by one document after another; raises with every field that is wrong."""
    whole = defaults()
    for each in overrides:
        whole = _merged(whole, each)
    try:
        values = decode(whole, Values, strict=True)
    except InvalidInput as error:
        raise InvalidConfiguration(f"the values are not valid: {error}") from None
    checked(values.documentation_url, "the values are not valid: documentationUrl")
    configuration = values.configuration
    for field, number in (
        ("replicaCount", values.replica_count),
        ("flowControl.shares", values.flow_control.shares),
    ):
        if number < 1:
            raise InvalidConfiguration(f"the values are not valid: {field}: must be at least 1; got {number}")
    if values.replica_count > 1 and not configuration.leader_election.enabled:
        raise InvalidConfiguration(
            "the values are not valid: replicaCount: must be 1 without config.leaderElection.enabled; "
            f"got {values.replica_count}"
        )
    server = configuration.server
    if values.network_policy.metrics_from and server.metrics.port == server.health_probes.port:
        raise InvalidConfiguration(
            "the values are not valid: networkPolicy.metricsFrom: cannot limit a port that everybody must be "
            "able to probe; give config.server.metrics.port and config.server.healthProbes.port two numbers"
        )
    return values


def parsed(text: str, where: str) -> Manifest:
    """A document of values; `where` names it in what is said of a bad one."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidConfiguration(yaml_problem(error).at(where)) from None
    if found is not None and not isinstance(found, dict):
        raise InvalidConfiguration(f"{where}: must be a mapping of values")
    return found or {}


def settings(given: Iterable[str]) -> Manifest:
    """The document that settings such as `image.tag=1.2` describe; the value is read as YAML."""
    found: Manifest = {}
    for each in given:
        path, equals, text = each.partition("=")
        if not equals or not all(path.split(".")):
            raise InvalidConfiguration(f"--set {each}: must be of the form name.of.value=something")
        value = parsed(f"value: {text}", f"--set {each}").get("value")
        for step in reversed(path.split(".")):
            value = {step: value}
        assert isinstance(value, dict)
        found = _merged(found, value, keep_nulls=True)
    return found


def _merged(base: Mapping[str, Any], over: Mapping[str, Any], *, keep_nulls: bool = False) -> Manifest:
    """As Helm does: mappings are merged, anything else is replaced, null removes."""
    found = dict(base)
    for key, value in over.items():
        if value is None and not keep_nulls:
            found.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = _merged(found[key], value, keep_nulls=keep_nulls)
        else:
            found[key] = value
    return found
