"""Everything that an installation consists of, in the order in which it must be applied.

Reads nothing but the files of this package.
"""

import base64
import binascii
from importlib.resources import files
from typing import Final

import yaml

from grove.api.crd import definitions
from grove.cli.links import linked
from grove.cli.manifests import operator
from grove.cli.manifests.access import OPERATOR, desired_access, desired_user_roles
from grove.cli.manifests.flow_control import desired_flow_control
from grove.cli.manifests.values import SELECTOR, Values
from grove.errors import InvalidConfiguration
from grove.meta import Manifest
from grove.webhook.registrations import ServedAt, desired_webhook_configurations

KEEP: Final = {"helm.sh/resource-policy": "keep"}
_MONITORING: Final = "monitoring.coreos.com/v1"
ALERTS: Final = "alerts.yaml"
DASHBOARD: Final = "dashboard.json"


def desired_installation(values: Values, namespace: str) -> list[Manifest]:
    """Every object but the namespace itself."""
    found = _definitions(values) if values.crds.install else []
    if values.priority_class.enabled:
        found.append(operator.desired_priority_class(values))
    if values.flow_control.enabled:
        found += desired_flow_control(values, namespace)
    found += desired_access(values, namespace)
    if values.rbac.user_roles:
        found += desired_user_roles()
    found += [
        operator.desired_config_map(values, namespace),
        operator.desired_service(values, namespace),
        operator.desired_deployment(values, namespace),
    ]
    if values.pod_disruption_budget.enabled:
        found.append(operator.desired_disruption_budget(namespace))
    if values.network_policy.enabled:
        found.append(operator.desired_network_policy(values, namespace))
    return [*found, *desired_monitoring(values, namespace), *desired_webhooks(values, namespace)]


def desired_namespace(name: str) -> Manifest:
    """The namespace of an installation without Helm."""
    found = operator.metadata(name)
    # The operator's pods meet the strictest of the Pod Security Standards; keep others to it as well.
    found["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": found}


def _definitions(values: Values) -> list[Manifest]:
    found = definitions()
    if values.keep_workloads:
        for each in found:
            each["metadata"]["annotations"] = dict(KEEP)
    return found


def desired_webhooks(values: Values, namespace: str) -> list[Manifest]:
    """How API servers are told of the webhooks; last, so that nothing of the installation waits for them."""
    configuration = values.configuration
    if not values.serves_webhooks:
        return []
    at = ServedAt(
        namespace,
        port=configuration.server.webhooks.port,
        url=values.webhooks.url,
        ca_bundle=_ca_bundle(values.webhooks.ca_bundle),
    )
    user = f"system:serviceaccount:{namespace}:{OPERATOR}"
    found = desired_webhook_configurations(at, operator=user, authorizer=configuration.authorizer.enabled)
    for each in found:
        each["metadata"]["labels"] = dict(SELECTOR)
        if values.webhooks.annotations:
            each["metadata"]["annotations"] = dict(values.webhooks.annotations)
    return found


def _ca_bundle(text: str) -> bytes | None:
    if not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidConfiguration("the values are not valid: webhooks.caBundle: must be base64") from None


def desired_monitoring(values: Values, namespace: str) -> list[Manifest]:
    """What Prometheus and Grafana are told."""
    chosen = values.metrics
    found: list[Manifest] = []
    if chosen.service_monitor.enabled:
        endpoint = {
            "port": "metrics",
            "path": "/metrics",
            "scheme": "http",
            "interval": chosen.service_monitor.interval,
        }
        spec = {"selector": {"matchLabels": dict(SELECTOR)}, "endpoints": [endpoint]}
        found.append(_monitoring("ServiceMonitor", "grove-operator-monitor", namespace, spec))
        found[-1]["metadata"]["labels"] |= chosen.service_monitor.labels
    if chosen.prometheus_rule.enabled:
        rules = _alerts(values.documentation_url)
        found.append(_monitoring("PrometheusRule", "grove-operator-alerts", namespace, rules))
        found[-1]["metadata"]["labels"] |= chosen.prometheus_rule.labels
    if chosen.dashboard.enabled:
        metadata = operator.metadata("grove-operator-dashboard", namespace)
        metadata["labels"] |= chosen.dashboard.labels
        data = {"grove.json": _packaged(DASHBOARD, "metrics.dashboard.enabled")}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return found


def _alerts(base: str) -> Manifest:
    """The rules, with runbooks that whoever is woken can open."""
    rules: Manifest = yaml.safe_load(_packaged(ALERTS, "metrics.prometheusRule.enabled"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["annotations"]["runbook_url"] = linked(base, rule["annotations"]["runbook_url"])
    return rules


def _monitoring(kind: str, name: str, namespace: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": _MONITORING,
        "kind": kind,
        "metadata": operator.metadata(name, namespace),
        "spec": spec,
    }


def _packaged(name: str, field: str) -> str:
    """A file that `make generate` copies from deploy/monitoring into this package."""
    file = files("grove.cli.manifests") / "monitoring" / name
    if not file.is_file():
        raise InvalidConfiguration(f"the values are not valid: {field}: this build contains no {name}")
    return file.read_text(encoding="utf-8")
