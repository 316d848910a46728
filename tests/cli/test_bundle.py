"""`grove bundle`: what is in it, and above all what is not."""

import io
import json
import tarfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.test_doctor import install, registered

from grove.api import kinds
from grove.cli.bundling.archive import Archive
from grove.cli.bundling.collection import Wanted, collect
from grove.cli.bundling.redaction import REMOVED, redacted, redacted_text
from grove.cli.doctoring.webhooks import REGISTERED
from grove.embedded.identity import User
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import Response
from grove.meta import Manifest, resource
from grove.testing import make
from grove.testing.memory import MemoryTransport
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import USER, World, WorldOptions, run_world

from .conftest import Grove
from .processes import kubectl, started

SECRETS = resource("", "v1", "Secret")
#: Planted in every place where a secret could be; none of them may come out.
PLANTED = "hunter2"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"

POD: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a",
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": [{"value": PLANTED}]}),
            "example.com/registry": f"https://me:{PLANTED}@registry.example.com/v2",
            "example.com/api-key": PLANTED,
        },
        "managedFields": [{"manager": PLANTED}],
    },
    "spec": {
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [
            {
                "name": "main",
                "image": "model:1",
                "env": [
                    {"name": "HF_HOME", "value": PLANTED},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "hf"}}},
                ],
                "command": ["serve", "--model=llama", f"--api-key={PLANTED}"],
                "args": ["--hf-token", PLANTED, "--port", "80", f"--db=postgres://u:{PLANTED}@db/x", JWT],
            }
        ],
    },
    "status": {"message": f"cannot pull: Authorization: Bearer {PLANTED}{PLANTED}"},
}


def test_no_planted_secret_comes_out_and_what_is_needed_stays() -> None:
    kept = redacted(POD)
    assert PLANTED not in json.dumps(kept)
    assert JWT not in json.dumps(kept)
    (container,) = kept["spec"]["containers"]
    assert container["env"] == [
        {"name": "HF_HOME", "value": REMOVED},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "hf"}}},
    ]
    assert container["command"] == ["serve", "--model=llama", f"--api-key={REMOVED}"]
    assert container["args"][:4] == ["--hf-token", REMOVED, "--port", "80"]
    assert container["args"][4] == f"--db=postgres://{REMOVED}@db/x"
    assert container["image"] == "model:1"
    assert kept["spec"]["imagePullSecrets"] == [{"name": "pull"}]


def test_the_values_of_a_secret_are_removed_and_its_keys_stay() -> None:
    kept = redacted({"kind": "Secret", "data": {"tls.key": PLANTED}, "stringData": {"x": PLANTED}})
    assert kept["data"] == {"tls.key": REMOVED}
    assert kept["stringData"] == {"x": REMOVED}


TEXTS = {
    "a password in a log": f'level=info password="{PLANTED}" user=me',
    "a token in JSON": json.dumps({"access_token": PLANTED}),
    "a URL": f"GET https://me:{PLANTED}@host/path",
    "a header": f"Authorization: Bearer {PLANTED}{PLANTED}",
    "a key": f"-----BEGIN EC PRIVATE KEY-----\n{PLANTED}\n-----END EC PRIVATE KEY-----\n",
    "the beginning of a key that was cut off": f"-----BEGIN PRIVATE KEY-----\n{PLANTED}",
    "a token by its looks": "AKIAABCDEFGHIJKLMNOP",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_texts_lose_what_looks_like_a_credential(text: str) -> None:
    kept = redacted_text(text)
    assert PLANTED not in kept
    assert "AKIA" not in kept
    assert REMOVED in kept


def test_sentences_of_the_operator_stay_as_they_are() -> None:
    said = "0 of 2 pods placed; 0/4 nodes are available: 4 Insufficient nvidia.com/gpu. took=3s"
    assert redacted_text(said) == said


async def collected(world: World, client: Client, limit: int = 64 << 20, *, namespace: str = "") -> Archive:
    archive = Archive(limit)
    now = virtual_clock().now
    wanted = Wanted(client, "https://here", namespace, timedelta(hours=1), now, lambda step: None)
    await collect(wanted, archive)
    return archive


def secretive(name: str) -> Manifest:
    manifest = make.cliqueset_manifest(name, {"worker": 2})
    (clique,) = manifest["spec"]["template"]["cliques"]
    clique["spec"]["podSpec"]["containers"][0] |= {
        "env": [{"name": "PASSWORD", "value": PLANTED}],
        "args": ["--token", PLANTED],
    }
    return manifest


class Noting(MemoryTransport):
    """Keeps what was asked for."""

    asked: list[str]

    async def send(self, method: str, path: str, **options: Any) -> Response:
        self.asked.append(path)
        return await super().send(method, path, **options)


def test_no_secret_is_read_not_even_that_of_the_webhooks_certificate() -> None:
    async def story(world: World) -> None:
        await install(world)
        for kind, name in REGISTERED:
            await world.user.create(kind, registered(name, ""))
        transport = Noting(world.cluster.app, USER)
        transport.asked = []
        await collected(world, Client(transport, limiter=Limiter.off()))
        assert transport.asked
        assert [each for each in transport.asked if "/secrets" in each] == []

    run_world(story, operator=False)


def test_a_bundle_holds_objects_events_logs_and_findings_and_no_secret() -> None:
    async def story(world: World) -> None:
        await install(world)
        await world.apply(secretive("train"))
        await world.settle()
        await world.user.create(
            SECRETS, {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"a": PLANTED}}
        )
        archive = await collected(world, world.user)
        assert {
            "versions.json",
            "doctor.json",
            "objects/podcliquesets.grove.io.yaml",
            "objects/podgangs.scheduler.grove.io.yaml",
            "objects/podgroups.scheduling.k8s.io.yaml",
            "objects/pods.yaml",
            "objects/events.yaml",
            "objects/nodes.yaml",
            "operator/deployment.yaml",
        } <= archive.entries.keys()
        everything = b"\n".join(archive.entries.values()).decode()
        assert PLANTED not in everything
        assert REMOVED in everything
        sets = list(yaml.safe_load_all(archive.entries["objects/podcliquesets.grove.io.yaml"]))
        assert [each["metadata"]["name"] for each in sets] == ["train"]

    run_world(story)


# The operator's logs ------------------------------------------------------------------------------


def operator_pod(name: str, logs: str = "", **more: Any) -> Manifest:
    """A pod of the Deployment that `install` makes; the embedded cluster answers with these logs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "grove-system",
            "labels": {"app.kubernetes.io/name": "grove-operator"},
            "annotations": {"embedded.grove.io/logs": logs or f"{name} started", **more},
        },
        "spec": {
            "nodeName": "node-0",
            "containers": [
                {
                    "name": "operator",
                    "image": "grove",
                    "env": [{"name": "HTTPS_PROXY", "value": f"http://me:{PLANTED}@proxy"}],
                }
            ],
        },
    }


class Restarted(MemoryTransport):
    """An API server that also has the log of the container before; the embedded one keeps one alone."""

    former = "the last words of the one before"
    asked: list[dict[str, str]]

    async def send(self, method: str, path: str, **options: Any) -> Response:
        query = dict(options.get("query") or ())
        if not path.endswith("/log"):
            return await super().send(method, path, **options)
        self.asked.append(query)
        if query.get("previous") == "true":
            return Response(200, {}, self.former.encode())
        return await super().send(method, path, **options)


def log_of(archive: Archive, name: str) -> str:
    return archive.entries[f"operator/logs/{name}.log"].decode()


def restarted(world: World) -> tuple[Client, Restarted]:
    transport = Restarted(world.cluster.app, USER)
    transport.asked = []
    return Client(transport, limiter=Limiter.off()), transport


def test_of_each_pod_of_the_operator_there_is_the_log_and_that_of_the_container_before() -> None:
    async def story(world: World) -> None:
        await install(world)
        for name in ("one", "two"):
            await world.user.create(kinds.PODS, operator_pod(name))
        stranger = operator_pod("stranger")
        stranger["metadata"]["labels"] = {"app": "other"}
        await world.user.create(kinds.PODS, stranger)
        await world.settle()
        client, transport = restarted(world)
        archive = await collected(world, client)
        logs = {name for name in archive.entries if name.startswith("operator/logs/")}
        assert logs == {
            f"operator/logs/{name}-operator{which}.log"
            for name in ("one", "two")
            for which in ("", "-previous")
        }
        assert log_of(archive, "one-operator") == "one started\n"
        assert log_of(archive, "two-operator-previous") == Restarted.former
        assert {each["sinceSeconds"] for each in transport.asked} == {"3600"}
        assert "stranger" not in archive.entries["operator/pods.yaml"].decode()

    run_world(story, operator=False)


def test_nothing_that_was_planted_in_pods_and_logs_of_the_operator_is_in_the_bundle() -> None:
    async def story(world: World) -> None:
        await install(world)
        said = (
            f"level=info msg=connected password={PLANTED}\nAuthorization: Bearer {PLANTED}{PLANTED}\nas {JWT}"
        )
        pod = operator_pod("one", said, **{"example.com/api-token": PLANTED})
        await world.user.create(kinds.PODS, pod)
        await world.settle()
        client, transport = restarted(world)
        transport.former = f"https://me:{PLANTED}@registry.example.com refused"
        archive = await collected(world, client)
        everything = b"\n".join(archive.entries.values()).decode()
        assert PLANTED not in everything
        assert JWT not in everything
        assert "level=info msg=connected" in log_of(archive, "one-operator")
        assert "registry.example.com refused" in log_of(archive, "one-operator-previous")

    run_world(story, operator=False)


def test_of_a_long_log_the_end_is_kept() -> None:
    async def story(world: World) -> None:
        await install(world)
        await world.user.create(kinds.PODS, operator_pod("one"))
        await world.settle()
        client, transport = restarted(world)
        transport.former = "the beginning\n" + "x" * 79 * (1 << 16) + "\nthe end"
        archive = await collected(world, client)
        kept = log_of(archive, "one-operator-previous")
        assert kept.endswith("\nthe end")
        assert len(kept) <= 2 << 20

    run_world(story, operator=False)


@pytest.mark.parametrize("first", ["password=", "Authorization: Bearer "], ids=["password", "bearer"])
def test_a_secret_whose_name_is_cut_off_with_the_beginning_of_a_log_is_not_kept(first: str) -> None:
    async def story(world: World) -> None:
        await install(world)
        await world.user.create(kinds.PODS, operator_pod("one"))
        await world.settle()
        client, transport = restarted(world)
        secret = PLANTED * 4
        rest = "\n" + "x" * ((2 << 20) - len(secret) - 1)
        transport.former = f"{first}{secret}{rest}"
        archive = await collected(world, client)
        assert PLANTED not in log_of(archive, "one-operator-previous")

    run_world(story, operator=False)


def test_a_log_that_cannot_be_read_is_said_and_the_others_are_there() -> None:
    async def story(world: World) -> None:
        await install(world)
        waiting = operator_pod("waiting")
        del waiting["spec"]["nodeName"]
        waiting["spec"]["schedulerName"] = "nobody"
        for pod in (operator_pod("one"), waiting):
            await world.user.create(kinds.PODS, pod)
        await world.settle()
        archive = await collected(world, world.user)
        assert log_of(archive, "one-operator") == "one started\n"
        skipped = {each["what"]: each["why"] for each in archive.skipped}
        assert "is waiting to start" in skipped["operator/logs/waiting-operator.log"]

    run_world(story, operator=False)


def test_what_may_not_be_read_and_what_is_too_much_is_in_the_index(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        nobody = Client(MemoryTransport(world.cluster.app, User("nobody", ())), limiter=Limiter.off())
        hidden = await collected(world, nobody)
        assert "versions.json" in hidden.entries
        assert {"podcliquesets.grove.io", "pods", "operator"} <= {each["what"] for each in hidden.skipped}
        small = await collected(world, world.user, limit=4096)
        assert small.size <= 4096
        assert any("larger than" in each["why"] for each in small.skipped)
        small.write(tmp_path / "b.tar.gz", {"kubernetes": "x"}, virtual_clock().now())

    run_world(story, WorldOptions(), operator=False)
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        assert tar.getnames()[0] == "grove-bundle/index.json"
        first = tar.extractfile("grove-bundle/index.json")
        assert first is not None
        index = json.loads(first.read())
        names = tar.getnames()[1:]
    assert index["skipped"]
    assert {each["path"] for each in index["entries"]} == {name.partition("/")[2] for name in names}
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600


def test_a_namespace_without_sets_is_said_to_have_none() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await world.settle()
        said = {
            where: [
                each["why"]
                for each in (await collected(world, world.user, namespace=where)).skipped
                if each["what"] == "podcliquesets.grove.io"
            ]
            for where in ("", "default", "nosuch")
        }
        assert said == {"": [], "default": [], "nosuch": ["namespace 'nosuch' has none"]}

    run_world(story)


def test_the_command_writes_one_file_about_a_cluster_of_grove_up(
    grove: Grove, tmp_path: Path, examples: Path
) -> None:
    kubeconfig, file = tmp_path / "kubeconfig", tmp_path / "bundle.tar.gz"
    with started("up", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        process.output.readline()
        kubectl(kubeconfig, "apply", "-f", str(examples / "too-big.yaml"))
        kubectl(kubeconfig, "wait", "podgang/too-big-0", "--for=condition=Scheduled=False", "--timeout=30s")
        ran = grove("bundle", "--kubeconfig", str(kubeconfig), "--file", str(file))
        process.ask_to_stop()
    assert (ran.code, ran.out) == (0, f"{file}\n"), ran.err
    with tarfile.open(fileobj=io.BytesIO(file.read_bytes())) as tar:
        names = tar.getnames()
    assert "grove-bundle/objects/podgangs.scheduler.grove.io.yaml" in names
    assert not list(tmp_path.glob(".*.partial"))


def test_a_time_that_is_none_is_wrong_usage(grove: Grove) -> None:
    ran = grove("bundle", "--since", "yesterday")
    assert ran.code == 2
    assert "--since" in ran.err
