"""Find out how to reach the API server: a kubeconfig or the service account of the pod that we run in.

Promises that every mistake raises KubeconfigError with one sentence that names the file and the field. Reads
files; never opens a connection and never starts a plugin (that happens with the first request).
"""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from grove.errors import KubeconfigError
from grove.kube import kubeconfig
from grove.kube.credentials import Credential, Credentials, StaticCredentials, TokenFile, basic, bearer
from grove.kube.exec_plugin import INTERACTIVE_MODES, VERSIONS, ExecPlugin, ExecSpec
from grove.kube.kubeconfig import Cluster, Entry, Kubeconfig, User
from grove.kube.proxy import proxy_for
from grove.kube.tls import ClientCertificate, TlsOptions
from grove.meta import Manifest

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything that a transport needs to know about one API server."""

    server: str
    namespace: str = "default"
    #: The name of the context, or `in-cluster`.
    context: str = ""
    tls: TlsOptions = field(default_factory=TlsOptions)
    credentials: Credentials = field(default_factory=StaticCredentials)
    proxy: str = ""
    #: Sent with each request: impersonation.
    headers: tuple[tuple[str, str], ...] = ()


def load(
    path: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The connection to use: explicit path, then KUBECONFIG, then the pod's own account, then ~/.kube/config.

    A pod's account has no contexts: who asks for a context skips it.
    """
    env = os.environ if environ is None else environ
    if path:
        return _from_files(kubeconfig.read([Path(path).expanduser()]), context, env)
    if listed := [Path(part).expanduser() for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]:
        present = [file for file in listed if file.exists()]
        if not present:
            names = ", ".join(str(file) for file in listed)
            raise KubeconfigError(f"the environment variable KUBECONFIG names no file that exists: {names}")
        return _from_files(kubeconfig.read(present), context, env)
    if not context and env.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return in_cluster(environ=env, service_account=service_account)
    default = _home(env) / ".kube" / "config"
    if not default.exists():
        raise KubeconfigError(
            f"no cluster is configured: KUBECONFIG is unset, this is no pod, and {default} does not exist"
        )
    return _from_files(kubeconfig.read([default]), context, env)


def _home(environ: Mapping[str, str]) -> Path:
    """The user's folder; `~` itself for a user that has none, as the one of a container may."""
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:
        return Path("~")


def in_cluster(
    *, environ: Mapping[str, str] | None = None, service_account: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection of a pod, with its service account's token, which is read again as it rotates."""
    env = os.environ if environ is None else environ
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        missing = "KUBERNETES_SERVICE_PORT" if host else "KUBERNETES_SERVICE_HOST"
        raise KubeconfigError(f"this is not a pod: the environment variable {missing} is not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    authority = service_account / "ca.crt"
    credentials = TokenFile(service_account / "token", field="the pod's service account")
    credentials.current()  # a missing token is told now, not with the first request
    namespace = service_account / "namespace"
    return Connection(
        server=server,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        context="in-cluster",
        tls=TlsOptions(
            authority=_read_file(authority, "the pod's service account"), source=f"the pod's {authority}"
        ),
        credentials=credentials,
        proxy=proxy_for(server, env),
    )


def _from_files(config: Kubeconfig, wanted: str | None, environ: Mapping[str, str]) -> Connection:
    name = wanted or config.current_context
    if not name:
        raise KubeconfigError(f"{config.name}: current-context is not set and no context was asked for")
    context = config.contexts.get(name)
    if context is None:
        who = f"context {name!r}" if wanted else f"current-context names {name!r}, which"
        known = ", ".join(sorted(config.contexts)) or "none"
        raise KubeconfigError(f"{config.name}: {who} is not in contexts (there: {known})")
    cluster = config.clusters.get(context.value.cluster)
    if cluster is None:
        raise KubeconfigError(
            f"{context.field('cluster')} names {context.value.cluster!r}, which is not in clusters"
        )
    user = config.users.get(context.value.user)
    if user is None and context.value.user:
        raise KubeconfigError(f"{context.field('user')} names {context.value.user!r}, which is not in users")
    if user is None:
        user = Entry(User(), context.file, "users[].user")
    server = _server(cluster)
    tls = _tls(cluster)
    explicit = cluster.value.proxy_url
    return Connection(
        server=server,
        namespace=context.value.namespace or "default",
        context=name,
        tls=tls,
        credentials=_credentials(user, cluster, tls),
        proxy=proxy_for(server, environ, explicit=explicit, field=cluster.field("proxy-url")),
        headers=_impersonation(user),
    )


def _server(cluster: Entry[Cluster]) -> str:
    server = cluster.value.server.rstrip("/")
    if not server:
        raise KubeconfigError(f"{cluster.field('server')} is not set")
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or "@" in parts.netloc:
        raise KubeconfigError(
            f"{cluster.field('server')} must be a URL like https://host:6443, not {cluster.value.server!r}"
        )
    return server


def _tls(cluster: Entry[Cluster]) -> TlsOptions:
    value = cluster.value
    authority = _inline_or_file(
        cluster, "certificate-authority", value.certificate_authority_data, value.certificate_authority
    )
    if authority is not None and value.insecure_skip_tls_verify:
        raise KubeconfigError(
            f"{cluster.field('insecure-skip-tls-verify')} and a certificate authority exclude each other"
        )
    which = "certificate-authority-data" if value.certificate_authority_data else "certificate-authority"
    if authority is not None and b"-----BEGIN CERTIFICATE-----" not in authority:
        raise KubeconfigError(f"{cluster.field(which)} holds no PEM certificate")
    return TlsOptions(
        authority=authority,
        verify=not value.insecure_skip_tls_verify,
        server_name=value.tls_server_name,
        source=cluster.field(which),
    )


def _credentials(user: Entry[User], cluster: Entry[Cluster], tls: TlsOptions) -> Credentials:
    value = user.value
    methods = [
        name
        for name, given in (
            ("token", value.token or value.token_file),
            ("username", value.username or value.password),
            ("exec", value.exec),
        )
        if given
    ]
    if value.auth_provider is not None:
        raise KubeconfigError(f"{user.field('auth-provider')} is no longer part of Kubernetes; use exec")
    if len(methods) > 1:
        raise KubeconfigError(f"{user.field(methods[0])} and {methods[1]} exclude each other")
    certificate = _certificate(user)
    if value.exec is not None:
        if certificate.certificate is not None:
            raise KubeconfigError(f"{user.field('exec')} and client-certificate exclude each other")
        return ExecPlugin(_exec(user, value.exec, cluster, tls))
    if value.token_file:
        path = user.beside(value.token_file)
        source = TokenFile(path, field=user.field("tokenFile"), certificate=certificate)
        source.current()
        return source
    header = ""
    if value.token:
        header = bearer(value.token)
    elif value.username or value.password:
        header = basic(value.username, value.password)
    if any(char in header for char in "\r\n\0"):
        raise KubeconfigError(f"{user.field(methods[0])} must not contain line breaks")
    return StaticCredentials(Credential(header, certificate.certificate, certificate.source))


def _certificate(user: Entry[User]) -> Credential:
    """The user's certificate as a credential without a header."""
    value = user.value
    chain = _inline_or_file(
        user, "client-certificate", value.client_certificate_data, value.client_certificate
    )
    key = _inline_or_file(user, "client-key", value.client_key_data, value.client_key)
    if chain is None and key is None:
        return Credential()
    if chain is None or key is None:
        there, missing = (
            ("client-key", "client-certificate") if chain is None else ("client-certificate", "client-key")
        )
        raise KubeconfigError(f"{user.field(missing)} is not set, but {there} is")
    for field_name, pem in (("client-certificate", chain), ("client-key", key)):
        if b"-----BEGIN " not in pem:
            raise KubeconfigError(f"{user.field(field_name)} holds no PEM data")
    return Credential("", ClientCertificate(chain, key), user.field("client-certificate"))


def _exec(user: Entry[User], stanza: kubeconfig.Exec, cluster: Entry[Cluster], tls: TlsOptions) -> ExecSpec:
    if not stanza.command:
        raise KubeconfigError(f"{user.field('exec.command')} is not set")
    if stanza.api_version not in VERSIONS:
        raise KubeconfigError(
            f"{user.field('exec.apiVersion')} must be {' or '.join(VERSIONS)}, not {stanza.api_version!r}"
        )
    mode = stanza.interactive_mode or ("" if stanza.api_version == VERSIONS[0] else "IfAvailable")
    if mode not in INTERACTIVE_MODES:
        raise KubeconfigError(
            f"{user.field('exec.interactiveMode')} must be {', '.join(INTERACTIVE_MODES)}, not {mode!r}"
        )
    return ExecSpec(
        field=user.field("exec"),
        api_version=stanza.api_version,
        command=stanza.command,
        args=stanza.args,
        env={variable.name: variable.value for variable in stanza.env},
        install_hint=stanza.install_hint,
        interactive_mode=mode,
        directory=user.file.absolute().parent,
        cluster=_exec_cluster(cluster.value, tls) if stanza.provide_cluster_info else None,
    )


def _exec_cluster(cluster: Cluster, tls: TlsOptions) -> Manifest:
    authority = base64.b64encode(tls.authority).decode() if tls.authority is not None else None
    described: Manifest = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name or None,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify or None,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url or None,
    }
    return {name: value for name, value in described.items() if value is not None}


def _impersonation(user: Entry[User]) -> tuple[tuple[str, str], ...]:
    value = user.value
    if not value.as_user and (value.as_uid or value.as_groups or value.as_user_extra):
        raise KubeconfigError(f"{user.field('as')} is not set, but other impersonation fields are")
    headers = [("Impersonate-User", value.as_user)] if value.as_user else []
    if value.as_uid:
        headers.append(("Impersonate-Uid", value.as_uid))
    headers += [("Impersonate-Group", group) for group in value.as_groups]
    headers += [
        (f"Impersonate-Extra-{key}", item) for key, items in value.as_user_extra.items() for item in items
    ]
    return tuple(headers)


def _inline_or_file(entry: Entry[Cluster] | Entry[User], name: str, data: str, path: str) -> bytes | None:
    """Inline data wins over a file, as in Kubernetes' own tools."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise KubeconfigError(f"{entry.field(f'{name}-data')} is not valid base64") from error
    return _read_file(entry.beside(path), entry.field(name)) if path else None


def _read_file(path: Path, field_name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{field_name} names {path}, which cannot be read: {error.strerror}") from error
