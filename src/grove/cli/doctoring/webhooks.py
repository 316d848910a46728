"""Admission webhooks: registered under their names, trusted, with a certificate that holds, and answered."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from grove.cli.doctoring.findings import Finding, failed, fine, unseen, warning
from grove.cli.doctoring.installation import Known
from grove.errors import Forbidden, NotFound
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource, resource
from grove.webhook.registrations import AUTHORIZER_NAME, ServedAt, desired_webhook_configurations
from grove.words import counted, duration_in_words

_GROUP: Final = "admissionregistration.k8s.io"
SLICES: Final = resource("discovery.k8s.io", "v1", "EndpointSlice")
SECRETS: Final = resource("", "v1", "Secret")

#: Every configuration that an installation with webhooks has; the authorizer's only where it is enabled.
REGISTERED: Final[tuple[tuple[Resource, str], ...]] = tuple(
    (resource(_GROUP, "v1", each["kind"], namespaced=False), each["metadata"]["name"])
    for each in desired_webhook_configurations(ServedAt(""), authorizer=True)
)
_LINK: Final = "docs/guides/troubleshooting.md#what-grove-doctor-says"
_SOON: Final = timedelta(days=14)


async def webhooks(
    client: Client,
    known: Known,
    now: Callable[[], datetime],
    *,
    reads_secret: bool = True,
    embedded: bool = False,
) -> Sequence[Finding]:
    """Whether what is applied is judged before it is stored."""
    there: list[Manifest] = []
    absent: list[str] = []
    for kind, name in REGISTERED:
        if name == AUTHORIZER_NAME and not (known.configuration and known.configuration.authorizer.enabled):
            continue
        try:
            there.append(await client.get(kind, Key("", name), type=dict))
        except NotFound:
            absent.append(f"{kind.kind} {name}")
    if not there:
        return [_none(known, embedded=embedded)]
    found = [_absent(absent)] if absent else []
    found += [_trust(each, now()) for each in there]
    if reads_secret:
        found += await _certificate(client, there, known, now())
    found += await _answered(client, there)
    return found


def _none(known: Known, *, embedded: bool) -> Finding:
    said = "none are registered: a bad set is stored, and refused in its condition Accepted"
    if embedded:
        return fine("webhooks", f"{said}, as in every embedded cluster")
    configured = known.configuration.server.webhooks.enabled if known.configuration else None
    if configured is False:
        return fine("webhooks", f"{said}, as server.webhooks.enabled is false")
    return warning("webhooks", said, fix="install the operator's webhooks (chart)", link=_LINK)


def _absent(names: Sequence[str]) -> Finding:
    said = f"not registered: {', '.join(names)}"
    finding = failed("webhooks", said, fix="apply the manifests of this version again", link=_LINK)
    return replace(finding, comes_with_upgrade=True)


def _trust(configuration: Manifest, now: datetime) -> Finding:
    """Whether the API server has a certificate authority for every webhook, one that has not expired."""
    name = configuration["metadata"]["name"]
    ends = []
    for each in configuration.get("webhooks") or ():
        bundle = (each.get("clientConfig") or {}).get("caBundle") or ""
        if not bundle:
            said = f"{name}: {each.get('name')} has no caBundle, so that every request that it matches fails"
            fix = "see the operator's log: it writes the bundle (certProvisionMode: auto), or put it there"
            return failed("webhooks", said, fix=fix, link=_LINK)
        until = _ends(_decoded(bundle))
        if isinstance(until, str):
            return unseen("webhooks", f"{name}: its caBundle cannot be read: {until}", link=_LINK)
        # Whoever exchanges an authority leaves the old one beside the new one for a while.
        ends.append(max(until))
    first = min(ends, default=now + 2 * _SOON)
    return _judged("webhooks", f"{name}: its certificate authority", first, now)


def _judged(check: str, what: str, end: datetime, now: datetime) -> Finding:
    left = end - now
    if left <= timedelta():
        said = f"{what} expired {duration_in_words(-left.total_seconds())} ago"
        return failed(check, said, fix="renew it; in auto mode the operator does, see its log", link=_LINK)
    if left < _SOON:
        said = f"{what} expires in {duration_in_words(left.total_seconds())}"
        return warning(check, said, fix="renew it; in auto mode the operator does, see its log", link=_LINK)
    return fine(check, f"{what} is valid for {duration_in_words(left.total_seconds())}")


async def _certificate(
    client: Client, there: Sequence[Manifest], known: Known, now: datetime
) -> list[Finding]:
    """The certificate that is served, where its Secret may be read."""
    if known.configuration is None or (service := _service(there)) is None:
        return []
    server = known.configuration.server.webhooks
    key = Key(service.namespace, server.secret_name)
    try:
        secret = await client.get(SECRETS, key, type=dict)
    except Forbidden:
        return [unseen("certificate", f"you may not read the Secret {key}", link=_LINK)]
    except NotFound:
        if server.cert_provision_mode == "manual":
            said = f"there is no Secret {key}; files may be in {server.server_cert_dir} in another way"
            return [unseen("certificate", said, link=_LINK)]
        return [failed("certificate", f"there is no Secret {key}", fix="see the operator's log", link=_LINK)]
    ends = _ends(_decoded((secret.get("data") or {}).get("tls.crt") or ""))
    if isinstance(ends, str):
        return [
            failed(
                "certificate", f"tls.crt of Secret {key} cannot be read: {ends}", fix="delete it", link=_LINK
            )
        ]
    return [_judged("certificate", f"the webhooks' certificate (Secret {key})", min(ends), now)]


async def _answered(client: Client, there: Sequence[Manifest]) -> list[Finding]:
    """Whether somebody answers behind the Service."""
    if (service := _service(there)) is None:
        return []
    slices = await client.list_all(
        SLICES, type=dict, namespace=service.namespace, labels=f"kubernetes.io/service-name={service.name}"
    )
    endpoints = [each for item in slices for each in item.get("endpoints") or ()]
    ready = [each for each in endpoints if (each.get("conditions") or {}).get("ready", True)]
    if ready:
        return [fine("webhooks", f"Service {service} has {counted(len(ready), 'ready endpoint')}")]
    said = f"Service {service} has no ready endpoint: every request that a webhook matches fails"
    return [
        failed("webhooks", said, fix="see why the operator is not ready: its /readyz says it", link=_LINK)
    ]


def _service(there: Sequence[Manifest]) -> Key | None:
    for configuration in there:
        for each in configuration.get("webhooks") or ():
            service = (each.get("clientConfig") or {}).get("service") or {}
            if service:
                return Key(service.get("namespace", ""), service.get("name", ""))
    return None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _ends(pem: bytes) -> list[datetime] | str:
    """When each of the certificates expires, or why they cannot be read."""
    try:
        from cryptography import x509
    except ImportError:
        return "the package cryptography is not installed"
    try:
        return [each.not_valid_after_utc for each in x509.load_pem_x509_certificates(pem)]
    except ValueError as error:
        return str(error)
