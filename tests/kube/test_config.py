"""Where the connection comes from, how files are merged, and how each mistake is told."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from tests.kube.pki import Pki

from grove.errors import KubeconfigError
from grove.kube.config import Connection, in_cluster, load
from grove.kube.tls import ClientCertificate
from grove.meta import Manifest

Edit = Callable[[Manifest], object]


def config(name: str = "a", **user: object) -> Manifest:
    """A kubeconfig with one context, cluster and user of this name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.test:6443"}}],
        "users": [{"name": name, "user": user or {"token": f"token-{name}"}}],
    }


def write(path: Path, content: Manifest) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))  # JSON is YAML
    return path


def authorization(connection: Connection) -> str:
    credential = connection.credentials.current()
    assert credential is not None
    return credential.authorization


def service_account(directory: Path, authority: bytes = b"-----BEGIN CERTIFICATE-----") -> Path:
    directory.mkdir()
    (directory / "token").write_text("pod-token\n")
    (directory / "ca.crt").write_bytes(authority)
    (directory / "namespace").write_text("grove-system")
    return directory


POD_ENV = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_precedence_is_path_then_variable_then_pod_then_home(tmp_path: Path) -> None:
    explicit = write(tmp_path / "explicit", config("explicit"))
    variable = write(tmp_path / "variable", config("variable"))
    write(tmp_path / "home/.kube/config", config("home"))
    account = service_account(tmp_path / "account")
    env = {"KUBECONFIG": str(variable), "HOME": str(tmp_path / "home"), **POD_ENV}

    def chosen(path: str | None = None, context: str | None = None) -> str:
        return load(path, context, environ=env, service_account=account).context

    assert chosen(str(explicit)) == "explicit"
    assert chosen() == "variable"
    del env["KUBECONFIG"]
    assert chosen() == "in-cluster"
    assert chosen(context="home") == "home"  # a pod has no contexts
    del env["KUBERNETES_SERVICE_HOST"]
    assert chosen() == "home"


def test_nothing_to_load_names_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"KUBECONFIG is unset.*\.kube/config does not exist"):
        load(environ={"HOME": str(tmp_path)})


def test_a_user_without_a_folder_and_without_a_name_is_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(KubeconfigError, match=r"this is no pod, and ~/\.kube/config does not exist"):
        load(environ={})


def test_several_files_are_merged_and_the_first_to_speak_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "first", config("a"))
    second = config("a", token="another")
    for stanza in ("contexts", "clusters", "users"):
        second[stanza] += config("b")[stanza]
    second["current-context"] = "b"
    paths = [first, tmp_path / "missing", write(tmp_path / "second", second)]
    env = {"KUBECONFIG": ":".join(map(str, paths))}
    merged = load(environ=env)
    assert (merged.context, merged.server, authorization(merged)) == (
        "a",
        "https://a.test:6443",
        "Bearer token-a",
    )
    other = load(context="b", environ=env)
    assert (other.server, other.namespace, authorization(other)) == (
        "https://b.test:6443",
        "ns-b",
        "Bearer token-b",
    )


def test_a_variable_that_names_only_missing_files_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"KUBECONFIG names no file that exists: .*missing"):
        load(environ={"KUBECONFIG": str(tmp_path / "missing")})


def test_paths_are_relative_to_the_file_that_mentions_them(tmp_path: Path, pki: Pki) -> None:
    content = config("a", **{"client-certificate": "tls/c.crt", "client-key": "tls/c.key"})
    content["clusters"][0]["cluster"]["certificate-authority"] = "tls/ca.crt"
    path = write(tmp_path / "deep/config", content)
    (tmp_path / "deep/tls").mkdir()
    (tmp_path / "deep/tls/ca.crt").write_bytes(pki.authority.certificate)
    (tmp_path / "deep/tls/c.crt").write_bytes(pki.client.certificate)
    (tmp_path / "deep/tls/c.key").write_bytes(pki.client.key)
    connection = load(str(path), environ={})
    credential = connection.credentials.current()
    assert connection.tls.authority == pki.authority.certificate
    assert credential is not None
    assert credential.certificate == ClientCertificate(pki.client.certificate, pki.client.key)


def test_inline_data_wins_over_files(tmp_path: Path, pki: Pki) -> None:
    content = config("a")
    cluster = content["clusters"][0]["cluster"]
    cluster["certificate-authority"] = "/does/not/exist"
    cluster["certificate-authority-data"] = base64.b64encode(pki.authority.certificate).decode()
    assert load(str(write(tmp_path / "c", content)), environ={}).tls.authority == pki.authority.certificate


USERS = {
    "a token": ({"token": "t"}, "Bearer t"),
    "a user and a password": ({"username": "u", "password": "p"}, "Basic dTpw"),
    "nothing": ({"token": None}, ""),
    "a token file before a token": ({"token": "t", "tokenFile": "token"}, "Bearer from-file"),
}


@pytest.mark.parametrize("case", USERS.values(), ids=USERS)
def test_how_a_user_authenticates(case: tuple[dict[str, object], str], tmp_path: Path) -> None:
    user, want = case
    (tmp_path / "token").write_text("from-file\n")
    assert authorization(load(str(write(tmp_path / "c", config("a", **user))), environ={})) == want


def test_the_rest_of_a_cluster_and_a_user(tmp_path: Path) -> None:
    impersonation = {"as": "eve", "as-uid": "7", "as-groups": ["g", "h"], "as-user-extra": {"scopes": ["s"]}}
    content = config("a", token="t", **impersonation)
    content["clusters"][0]["cluster"] |= {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "api.test",
        "proxy-url": "http://proxy.test:3128",
    }
    connection = load(str(write(tmp_path / "c", content)), environ={})
    assert (connection.tls.verify, connection.tls.server_name) == (False, "api.test")
    assert connection.proxy == "http://proxy.test:3128"
    assert connection.headers == (
        ("Impersonate-User", "eve"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-scopes", "s"),
    )


def cluster(**fields: object) -> Edit:
    return lambda content: content["clusters"][0]["cluster"].update(
        {k.replace("_", "-"): v for k, v in fields.items()}
    )


def user(**fields: object) -> Edit:
    return lambda content: content["users"][0].update(
        user={k.replace("_", "-"): v for k, v in fields.items()}
    )


def top(**fields: object) -> Edit:
    return lambda content: content.update({k.replace("_", "-"): v for k, v in fields.items()})


def plugin(**fields: object) -> Edit:
    stanza = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}
    return lambda content: content["users"][0].update(user={"exec": stanza | fields})


NOT_BASE64 = "***"
NOT_PEM = base64.b64encode(b"hello").decode()
MISTAKES: dict[str, tuple[Edit, str]] = {
    "no current context": (
        top(current_context=""),
        "current-context is not set and no context was asked for",
    ),
    "unknown context": (
        top(current_context="z"),
        "current-context names 'z', which is not in contexts (there: a)",
    ),
    "unknown cluster": (top(clusters=[]), "contexts[a].context.cluster names 'a', which is not in clusters"),
    "unknown user": (top(users=None), "contexts[a].context.user names 'a', which is not in users"),
    "wrong kind": (top(kind="Pod"), "kind must be 'Config', not 'Pod'"),
    "wrong type": (top(clusters="x"), "clusters is wrong: expected `array`, got `str`"),
    "wrong type inside": (
        cluster(server=5),
        "clusters[0].cluster.server is wrong: expected `str`, got `int`",
    ),
    "no name": (top(users=[{"user": {}}]), "users[0] is wrong: object missing required field `name`"),
    "no server": (cluster(server=""), "clusters[a].cluster.server is not set"),
    "bad server": (
        cluster(server="a.test:6443"),
        "clusters[a].cluster.server must be a URL like https://host:6443, not 'a.test:6443'",
    ),
    "bad port": (
        cluster(server="https://a:x"),
        "clusters[a].cluster.server must be a URL like https://host:6443, not 'https://a:x'",
    ),
    "authority not base64": (
        cluster(certificate_authority_data=NOT_BASE64),
        "clusters[a].cluster.certificate-authority-data is not valid base64",
    ),
    "authority not PEM": (
        cluster(certificate_authority_data=NOT_PEM),
        "clusters[a].cluster.certificate-authority-data holds no PEM certificate",
    ),
    "authority missing": (
        cluster(certificate_authority="/no/ca"),
        "clusters[a].cluster.certificate-authority names /no/ca, which cannot be read: No such file or directory",
    ),
    "authority and insecure": (
        cluster(
            certificate_authority_data=base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode(),
            insecure_skip_tls_verify=True,
        ),
        "clusters[a].cluster.insecure-skip-tls-verify and a certificate authority exclude each other",
    ),
    "socks proxy": (
        cluster(proxy_url="socks5://u:secret@p:1"),
        "clusters[a].cluster.proxy-url must be an http:// or https:// URL, not 'socks5://…@p:1'",
    ),
    "key without certificate": (
        user(client_key_data=NOT_PEM),
        "users[a].user.client-certificate is not set, but client-key is",
    ),
    "certificate without key": (
        user(client_certificate_data=NOT_PEM),
        "users[a].user.client-key is not set, but client-certificate is",
    ),
    "certificate not PEM": (
        user(client_certificate_data=NOT_PEM, client_key_data=NOT_PEM),
        "users[a].user.client-certificate holds no PEM data",
    ),
    "token file missing": (
        user(tokenFile="/no/token"),
        "users[a].user.tokenFile names /no/token, which cannot be read: No such file or directory",
    ),
    "token with a line break": (user(token="a\nb"), "users[a].user.token must not contain line breaks"),
    "two ways": (user(token="t", username="u"), "users[a].user.token and username exclude each other"),
    "auth provider": (
        user(auth_provider={"name": "gcp"}),
        "users[a].user.auth-provider is no longer part of Kubernetes; use exec",
    ),
    "groups without user": (
        user(as_groups=["g"]),
        "users[a].user.as is not set, but other impersonation fields are",
    ),
    "no command": (plugin(command=""), "users[a].user.exec.command is not set"),
    "old plugin": (
        plugin(apiVersion="client.authentication.k8s.io/v1alpha1"),
        "users[a].user.exec.apiVersion must be client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1, not 'client.authentication.k8s.io/v1alpha1'",
    ),
    "no interactive mode": (
        plugin(interactiveMode=None),
        "users[a].user.exec.interactiveMode must be Never, IfAvailable, Always, not ''",
    ),
}


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_names_the_file_and_the_field(case: tuple[Edit, str], tmp_path: Path) -> None:
    edit, want = case
    content = config("a")
    edit(content)
    path = write(tmp_path / "config", content)
    with pytest.raises(KubeconfigError) as caught:
        load(str(path), environ={})
    assert str(caught.value) == f"{path}: {want}"


FILES = {
    "not there": (None, "cannot be read: No such file or directory"),
    "not YAML": ("a: [", "is not valid YAML: "),
    "not a mapping": ("- a", "is not a kubeconfig: "),
    "empty": ("", "current-context is not set"),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_a_file_that_is_no_kubeconfig_is_named(case: tuple[str | None, str], tmp_path: Path) -> None:
    text, want = case
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KubeconfigError) as caught:
        load(str(path), environ={})
    assert str(caught.value).startswith(str(path))
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_context_lists_the_known_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "c", config("a"))
    with pytest.raises(KubeconfigError, match=r"context 'z' is not in contexts \(there: a\)"):
        load(str(path), "z", environ={})


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    account = service_account(tmp_path / "account")
    connection = in_cluster(environ=POD_ENV, service_account=account)
    assert (connection.server, connection.namespace) == ("https://10.0.0.1:443", "grove-system")
    assert authorization(connection) == "Bearer pod-token"
    six = in_cluster(environ=POD_ENV | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, service_account=account)
    assert six.server == "https://[fd00::1]:443"


def test_a_process_that_is_no_pod_is_told_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST is not set"):
        in_cluster(environ={})
    with pytest.raises(KubeconfigError, match=r"service account names .*token, which cannot be read"):
        in_cluster(environ=POD_ENV, service_account=tmp_path)
