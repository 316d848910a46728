"""Choose where the certificate of the webhooks comes from, as the configuration says."""

import random
from pathlib import Path

from grove.api import labels
from grove.api.config import WebhookServer
from grove.kube.client import Client
from grove.meta import Key
from grove.runtime.clock import Clock
from grove.runtime.metrics import Metrics
from grove.webhook.certificates.files import CertificateFiles
from grove.webhook.certificates.own import OwnAuthority
from grove.webhook.certificates.telling import Tell, measured_by
from grove.webhook.serving import CertificateSource


def server_names(namespace: str, service: str = labels.MANAGER) -> tuple[str, ...]:
    """What the server is called inside a cluster; the first is the name by which API servers verify it."""
    return (
        f"{service}.{namespace}.svc",
        service,
        f"{service}.{namespace}",
        f"{service}.{namespace}.svc.cluster.local",
    )


def certificate_source(
    server: WebhookServer,
    client: Client,
    *,
    namespace: str,
    clock: Clock,
    rng: random.Random,
    metrics: Metrics,
    tell: Tell | None = None,
) -> CertificateSource:
    """The source for an operator in this namespace.

    `client` must not be fenced: every replica serves webhooks, whoever leads. `tell` says what is wrong where
    people look who do not read the log.
    """
    source = _source(server, client, namespace, clock, rng)
    source.subscribe(measured_by(metrics))
    if tell is not None:
        source.report_to(tell)
    return source


def _source(
    server: WebhookServer, client: Client, namespace: str, clock: Clock, rng: random.Random
) -> OwnAuthority | CertificateFiles:
    names = server_names(namespace)
    if server.cert_provision_mode == "manual":
        return CertificateFiles(Path(server.server_cert_dir), names, clock=clock)
    return OwnAuthority(
        client,
        Key(namespace, server.secret_name),
        names,
        clock=clock,
        rng=rng,
        watcher=client,
    )
