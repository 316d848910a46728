"""Tokens that rotate and plugins that hand them out."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.kube.pki import Pki
from tests.kube.stub import Asked, Reply, client_of, client_to, refusal, reply, serve
from tests.kube.test_config import config, write

from grove import errors
from grove.errors import KubeconfigError
from grove.kube.config import Connection, load
from grove.kube.credentials import TokenFile
from grove.kube.exec_plugin import ExecPlugin, ExecSpec
from grove.kube.tls import TlsOptions
from grove.meta import Object, resource

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
VERSION = {"major": "1"}


def accepting(token: str) -> Callable[[Asked], Reply]:
    """A server that knows one token."""
    return lambda asked: (
        reply(VERSION)
        if asked.headers.get("Authorization") == f"Bearer {token}"
        else refusal(401, "Unauthorized", "who?")
    )


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)


def header(credentials: TokenFile) -> str:
    current = credentials.current()
    assert current is not None
    return current.authorization


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path, field="x", clock=clock)
    assert header(credentials) == "Bearer one"
    path.write_text("two\n")
    clock.seconds = 59
    assert header(credentials) == "Bearer one"
    clock.seconds = 60
    assert header(credentials) == "Bearer two"


def test_a_token_file_that_vanishes_for_a_moment_does_no_harm(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path, field="x", clock=clock)
    assert header(credentials) == "Bearer one"
    path.unlink()
    clock.seconds = 61
    assert header(credentials) == "Bearer one"


def test_an_empty_token_file_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(KubeconfigError, match=r"config: tokenFile names .*token, which is empty"):
        TokenFile(tmp_path / "token", field="config: tokenFile").current()


async def test_a_401_makes_the_token_be_read_at_once_and_the_request_be_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFile(path, field="x", clock=Clock())
    credentials.current()
    path.write_text("new")
    async with serve(script=accepting("new")) as stub, client_of(stub, credentials=credentials) as client:
        assert (await client.version()).major == "1"
        assert [asked.headers["Authorization"] for asked in stub.asked] == ["Bearer old", "Bearer new"]


async def test_a_401_with_an_unchanged_token_is_told_after_one_attempt(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    credentials = TokenFile(tmp_path / "token", field="x")
    async with serve(script=accepting("new")) as stub, client_of(stub, credentials=credentials) as client:
        with pytest.raises(errors.Unauthorized, match=r"who\?"):
            await client.version()
        assert len(stub.asked) == 1


async def test_a_watch_gets_the_new_token_too(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFile(path, field="x", clock=Clock())
    credentials.current()
    path.write_text("new")
    async with serve(script=accepting("new")) as stub, client_of(stub, credentials=credentials) as client:
        with pytest.raises(errors.Unreachable, match="not an event"):  # the stub answers with its version
            async for _ in client.watch(resource("", "v1", "Pod"), type=Object, resource_version="1"):
                pass
        assert [asked.headers["Authorization"] for asked in stub.asked] == ["Bearer old", "Bearer new"]


PLUGIN = """
import json, os, sys, pathlib
here = pathlib.Path(__file__).parent
runs = here / "runs"
count = len(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text("x" * count)
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
(here / "info").write_text(json.dumps(info))
status = {"token": f"{os.environ.get('PREFIX', 'token')}-{count}-{'-'.join(sys.argv[1:])}"}
extra = here / "status"
if extra.exists():
    status.update(json.loads(extra.read_text()))
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def plugin(directory: Path, source: str = PLUGIN) -> Path:
    (directory / "plugin.py").write_text(source)
    command = directory / "plugin"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} "{directory}/plugin.py" "$@"\n')
    command.chmod(0o755)
    return command


def spec(command: object, **rest: object) -> ExecSpec:
    fields: dict[str, object] = {
        "field": "config: users[a].user.exec",
        "api_version": V1,
        "interactive_mode": "Never",
    }
    return ExecSpec(command=str(command), **(fields | rest))  # type: ignore[arg-type]


def runs(directory: Path) -> int:
    return len((directory / "runs").read_text())


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugin_gets_arguments_environment_and_cluster(version: str, tmp_path: Path) -> None:
    plugin(tmp_path)
    stanza = {
        "apiVersion": version,
        "command": "./plugin",
        "args": ["get", "token"],
        "env": [{"name": "PREFIX", "value": "mine"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    path = write(tmp_path / "config", config("a", exec=stanza))
    credential = await load(str(path), environ={}).credentials.obtain()
    assert credential.authorization == "Bearer mine-1-get-token"
    info = (tmp_path / "info").read_text()
    assert f'"apiVersion": "{version}"' in info
    assert '"spec": {"interactive": false, "cluster": {"server": "https://a.test:6443"}}' in info


async def test_a_plugin_runs_once_for_many_requests_and_again_after_expiry(tmp_path: Path) -> None:
    clock, command = Clock(), plugin(tmp_path)
    (tmp_path / "status").write_text('{"expirationTimestamp": "2026-11-15T12:01:00Z"}')
    credentials = ExecPlugin(spec(command), now=clock.now)
    first = await asyncio.gather(*(credentials.obtain() for _ in range(10)))
    assert {credential.authorization for credential in first} == {"Bearer token-1-"}
    clock.seconds = 59
    assert credentials.current() == first[0]
    clock.seconds = 60
    assert credentials.current() is None
    assert (await credentials.obtain()).authorization == "Bearer token-2-"
    assert runs(tmp_path) == 2


async def test_a_401_makes_the_plugin_run_again(tmp_path: Path) -> None:
    credentials = ExecPlugin(spec(plugin(tmp_path)))
    async with (
        serve(script=accepting("token-2-")) as stub,
        client_of(stub, credentials=credentials) as client,
    ):
        assert (await client.version()).major == "1"
        assert (await client.version()).major == "1"
        assert len(stub.asked) == 3
    assert runs(tmp_path) == 2


async def test_many_requests_refused_at_once_run_the_plugin_once(tmp_path: Path) -> None:
    credentials = ExecPlugin(spec(plugin(tmp_path)))
    async with (
        serve(script=accepting("token-2-")) as stub,
        client_of(stub, credentials=credentials) as client,
    ):
        versions = await asyncio.gather(*(client.version() for _ in range(8)))
        assert {version.major for version in versions} == {"1"}
    assert runs(tmp_path) == 2


async def test_a_plugin_may_hand_out_a_certificate(tmp_path: Path, pki: Pki) -> None:
    pair = {
        "token": None,
        "clientCertificateData": pki.client.certificate.decode(),
        "clientKeyData": pki.client.key.decode(),
    }
    command = plugin(tmp_path)
    (tmp_path / "status").write_text(json.dumps(pair))
    connection_tls = TlsOptions(authority=pki.authority.certificate)
    async with serve(reply(VERSION), tls=pki.server_context(ask_client=True)) as stub:
        connection = Connection(stub.url, tls=connection_tls, credentials=ExecPlugin(spec(command)))
        async with client_to(connection) as client:
            assert (await client.version()).major == "1"
        assert "Authorization" not in stub.asked[0].headers


async def test_a_missing_plugin_is_told_with_its_hint_in_one_sentence(tmp_path: Path) -> None:
    missing = spec("no-such-plugin", install_hint="install it with\n  brew install no-such-plugin")
    with pytest.raises(KubeconfigError) as caught:
        await ExecPlugin(missing).obtain()
    assert str(caught.value) == (
        "config: users[a].user.exec.command: 'no-such-plugin' is not an executable on this machine; "
        "install it with brew install no-such-plugin"
    )


BAD = {
    "not JSON": ("print('hello')", "did not print an ExecCredential"),
    "another kind": ('print(\'{"kind": "Pod"}\')', "did not print an ExecCredential with a status"),
    "another version": (
        'print(\'{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "status": {"token": "t"}}\')',
        "printed apiVersion 'client.authentication.k8s.io/v1beta1' instead of 'client.authentication.k8s.io/v1'",
    ),
    "nothing in it": (
        f'print(\'{{"kind": "ExecCredential", "apiVersion": "{V1}", "status": {{}}}}\')',
        "printed neither status.token nor status.clientCertificateData",
    ),
    "half a certificate": (
        f'print(\'{{"kind": "ExecCredential", "apiVersion": "{V1}", "status": {{"clientKeyData": "k"}}}}\')',
        "printed only one of status.clientCertificateData and status.clientKeyData",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
async def test_a_plugin_that_prints_something_else_is_named(case: tuple[str, str], tmp_path: Path) -> None:
    source, want = case
    command = plugin(tmp_path, source)
    with pytest.raises(KubeconfigError) as caught:
        await ExecPlugin(spec(command)).obtain()
    assert f"config: users[a].user.exec.command: '{command}' {want}" in str(caught.value)


async def test_a_plugin_that_fails_may_succeed_later(tmp_path: Path) -> None:
    command = plugin(tmp_path, "import sys; sys.exit('network is down')")
    credentials = ExecPlugin(spec(command))
    with pytest.raises(errors.Unauthorized, match="failed with exit code 1: network is down"):
        await credentials.obtain()
    plugin(tmp_path)
    assert (await credentials.obtain()).authorization == "Bearer token-1-"


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path) -> None:
    command = plugin(tmp_path, "import signal; signal.pause()")
    with pytest.raises(errors.Unauthorized, match=r"did not finish within 0\.2 s"):
        await ExecPlugin(spec(command), timeout=0.2).obtain()


async def test_a_plugin_that_needs_a_terminal_is_not_started_without_one(tmp_path: Path) -> None:
    command = plugin(tmp_path)
    with pytest.raises(KubeconfigError, match="needs a terminal"):
        await ExecPlugin(spec(command, interactive_mode="Always"), on_terminal=lambda: False).obtain()
    assert not (tmp_path / "runs").exists()


async def test_a_plugin_is_told_whether_it_may_ask(tmp_path: Path) -> None:
    command = plugin(tmp_path)
    for mode in ("Never", "IfAvailable"):
        await ExecPlugin(spec(command, interactive_mode=mode), on_terminal=lambda: False).obtain()
        assert '"interactive": false' in (tmp_path / "info").read_text()
    await ExecPlugin(spec(command, interactive_mode="IfAvailable"), on_terminal=lambda: True).obtain()
    assert '"interactive": true' in (tmp_path / "info").read_text()
