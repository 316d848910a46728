"""The operator itself: its configuration, its pods, and what keeps them safe and reachable. Pure."""

import hashlib
import json
from typing import Any, Final

import yaml

from grove import __version__
from grove.cli.manifests.access import OPERATOR
from grove.cli.manifests.values import SELECTOR, Values
from grove.meta import Manifest

CONFIG_MAP: Final = "grove-operator-cm"
CONFIG_FILE: Final = "config.yaml"
_CONFIG_FOLDER: Final = "/etc/grove-operator/config"
_TOKEN_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_USER: Final = 65532
_UNPRIVILEGED: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
#: The kubelet renews the token long before it expires.
_TOKEN_SECONDS: Final = 3607
_HTML: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def metadata(name: str, namespace: str = "") -> Manifest:
    """The metadata of every object of an installation."""
    found: Manifest = {"name": name, "labels": dict(SELECTOR)}
    return {**found, "namespace": namespace} if namespace else found


def desired_config_map(values: Values, namespace: str) -> Manifest:
    """The configuration under a name that ends in its hash: a change makes the Deployment roll."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(f"{CONFIG_MAP}-{_hash(values.document)}", namespace),
        "immutable": True,
        "data": {CONFIG_FILE: yaml.safe_dump(values.document)},
    }


def _hash(document: Manifest) -> str:
    """The first digits of what Helm's `toJson | sha256sum` prints for the same document."""
    text = json.dumps(_as_go(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character, escaped in _HTML.items():
        text = text.replace(character, escaped)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _as_go(value: Any) -> Any:
    """Go writes 5000.0 as 5000."""
    if isinstance(value, dict):
        return {str(key): _as_go(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_go(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def desired_priority_class(values: Values) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata(values.priority_class.name),
        "value": values.priority_class.value,
        "globalDefault": False,
        "description": "The Grove operator: no workload preempts what brings workloads back.",
    }


def desired_service(values: Values, namespace: str) -> Manifest:
    """What the API server calls and Prometheus reads."""
    server = values.configuration.server
    found = metadata(OPERATOR, namespace)
    if values.service.annotations:
        found["annotations"] = dict(values.service.annotations)
    ports = [{"name": "metrics", "port": server.metrics.port, "protocol": "TCP", "targetPort": "metrics"}]
    if values.serves_webhooks:
        webhooks = {
            "name": "webhooks",
            "port": server.webhooks.port,
            "protocol": "TCP",
            "targetPort": "webhooks",
        }
        ports.append(webhooks)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": found,
        "spec": {"type": values.service.type, "selector": dict(SELECTOR), "ports": ports},
    }


def desired_deployment(values: Values, namespace: str) -> Manifest:
    """The replicas of the operator."""
    template: Manifest = {"labels": {**values.pod_labels, **SELECTOR}}
    if values.pod_annotations:
        template["annotations"] = dict(values.pod_annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(OPERATOR, namespace),
        "spec": {
            "replicas": values.replica_count,
            "selector": {"matchLabels": dict(SELECTOR)},
            "template": {"metadata": template, "spec": _pod(values, namespace)},
        },
    }


def _pod(values: Values, namespace: str) -> Manifest:
    config = desired_config_map(values, namespace)["metadata"]["name"]
    spec: Manifest = {
        "serviceAccountName": OPERATOR,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(values)],
        "volumes": [
            {"name": "operator-config", "configMap": {"name": config}},
            {"name": "kube-api-access-grove", "projected": {"sources": _token_sources()}},
            # A certificate is handed to Python's TLS as a file; the file system of the image is read-only.
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            *_certificates(values),
        ],
    }
    chosen = {
        "priorityClassName": values.priority_class.name,
        "imagePullSecrets": list(values.image_pull_secrets),
        "nodeSelector": dict(values.node_selector),
        "tolerations": list(values.tolerations),
        "affinity": values.affinity,
        "topologySpreadConstraints": list(values.topology_spread_constraints),
    }
    return {**spec, **{name: value for name, value in chosen.items() if value}}


def _token_sources() -> list[Manifest]:
    """What every pod gets by default, asked for by name: the account itself hands out no token."""
    space = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [space]}},
    ]


def _manual(values: Values) -> bool:
    return values.serves_webhooks and values.configuration.server.webhooks.cert_provision_mode == "manual"


def _certificates(values: Values) -> list[Manifest]:
    if not _manual(values):
        return []
    secret = values.configuration.server.webhooks.secret_name
    return [{"name": "webhook-certs", "secret": {"secretName": secret, "defaultMode": 0o440}}]


def _container(values: Values) -> Manifest:
    server = values.configuration.server
    ports = [("metrics", server.metrics.port), ("health", server.health_probes.port)]
    if values.serves_webhooks:
        ports.append(("webhooks", server.webhooks.port))
    init = values.init_image
    account = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.serviceAccountName"}}
    container: Manifest = {
        "name": "operator",
        "image": _image(values),
        "imagePullPolicy": values.image.pull_policy,
        "args": [f"--config={_CONFIG_FOLDER}/{CONFIG_FILE}"],
        "env": [
            {"name": "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME", "valueFrom": account},
            {
                "name": "GROVE_INIT_CONTAINER_IMAGE",
                "value": f"{init.repository}:{init.tag}" if init.tag else init.repository,
            },
            *values.env,
        ],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
            "timeoutSeconds": 5,
        },
        # Ready once caches are synced, permissions are there and webhooks are served with a certificate.
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "health"},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
        "securityContext": dict(_UNPRIVILEGED),
        "volumeMounts": _mounts(values),
    }
    return {**container, "resources": values.resources} if values.resources else container


def _mounts(values: Values) -> list[Manifest]:
    mounts = [
        ("operator-config", _CONFIG_FOLDER, True),
        ("kube-api-access-grove", _TOKEN_FOLDER, True),
        ("tmp", "/tmp", False),
    ]
    if _manual(values):
        mounts.append(("webhook-certs", values.configuration.server.webhooks.server_cert_dir, True))
    return [
        {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
        for name, path, read_only in mounts
    ]


def _image(values: Values) -> str:
    tag = values.image.tag or __version__
    return f"{values.image.repository}{'@' if tag.startswith('sha256:') else ':'}{tag}"


def desired_disruption_budget(namespace: str) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(OPERATOR, namespace),
        # Not a minimum: with one replica it would hold up every drain.
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(SELECTOR)}},
    }


def desired_network_policy(values: Values, namespace: str) -> Manifest:
    """Only what is served can be reached: by whom cannot be said of an API server or a kubelet."""
    server = values.configuration.server
    open_ports = [server.health_probes.port]
    if values.serves_webhooks:
        open_ports.append(server.webhooks.port)
    metrics: Manifest = {"ports": [{"port": server.metrics.port, "protocol": "TCP"}]}
    if values.network_policy.metrics_from:
        metrics["from"] = list(values.network_policy.metrics_from)
    spec: Manifest = {
        "podSelector": {"matchLabels": dict(SELECTOR)},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in open_ports]}, metrics],
    }
    if values.network_policy.egress:
        spec["policyTypes"] = ["Ingress", "Egress"]
        spec["egress"] = list(values.network_policy.egress)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(OPERATOR, namespace),
        "spec": spec,
    }
