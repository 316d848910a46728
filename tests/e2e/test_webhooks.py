"""A real API server asks the webhooks over TLS: what kubectl prints, and what is stored afterwards."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.cli.processes import KUBECTL
from tests.e2e.conftest import Plane
from tests.e2e.plane import OPERATOR, OPERATOR_GROUPS, SYSTEM, Act, Running, loaded, working
from tests.e2e.scene import role, train
from tests.webhook.serving import GivenCertificates, made_certificate

from grove.api import kinds, labels
from grove.api.config import Authorizer, Limits, OperatorConfiguration, Server, WebhookServer
from grove.assembly import Identity, assemble
from grove.errors import NotFound
from grove.kube import config
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest, Resource, resource
from grove.webhook.registrations import ServedAt, desired_webhook_configurations

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not KUBECTL.exists(), reason="there is no kubectl; `make setup-dev` installs one"),
]

CLIQUES = "spec.template.cliques"
PODS = f"{CLIQUES}[0].spec.podSpec"
GROUP = "admissionregistration.k8s.io"


class Guarded:
    """A namespace whose API server asks the operator before it stores anything of ours."""

    def __init__(self, act: Act, folder: Path) -> None:
        self.act = act
        self.folder = folder
        self.served: list[Manifest] = []

    async def start(self, **configured: object) -> Running:
        """An operator that serves webhooks, and the API server told of it."""
        certificate = made_certificate(self.folder)
        server = Server(webhooks=WebhookServer(bind_address="127.0.0.1", port=0))
        chosen: OperatorConfiguration = msgspec.structs.replace(
            loaded(self.act.world.judge.configuration), server=server, **configured
        )
        control = self.act.world.control
        transport = HttpTransport(config.load(str(control.kubeconfig_for(OPERATOR, OPERATOR_GROUPS))))
        operator = await assemble(
            Client(transport, limiter=Limiter.off()),
            chosen,
            rng=random.Random(1),
            identity=Identity("guard", SYSTEM),
            health=False,
            webhooks=True,
            certificates=GivenCertificates(certificate),
        )
        running = Running.of(operator, transport)
        self.act.operators.append(running)
        await working(running)
        assert operator.webhooks is not None
        await asyncio.wait_for(operator.webhooks.listening.wait(), 10)
        assert operator.manager.readiness.missing() == []
        at = ServedAt(SYSTEM, url=f"https://127.0.0.1:{operator.webhooks.port}", ca_bundle=certificate.ca)
        self.served = desired_webhook_configurations(
            at, operator=OPERATOR, authorizer=chosen.authorizer.enabled
        )
        for each in self.served:
            await self.act.world.create(each)
        await self._until_asked()
        return running

    async def _until_asked(self) -> None:
        """An API server notices new webhooks a moment after they were stored."""
        wrong = train(role("worker", 1, minAvailable=1), terminationDelay="soon", name="probe")
        said = ""
        async with asyncio.timeout(20):
            while "is not a duration" not in said:
                _, said = await self.apply(wrong, "--dry-run=server")

    async def stop(self) -> None:
        """Without this every later story would be refused."""
        for each in self.served:
            of = resource(GROUP, "v1", each["kind"], namespaced=False)
            await self.act.world.admin.delete(of, Key("", each["metadata"]["name"]))

    async def kubectl(self, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """The exit code of kubectl and everything that it said."""
        process = await asyncio.create_subprocess_exec(
            *(str(KUBECTL), "--kubeconfig", str(self.act.world.control.kubeconfig())),
            *("--namespace", self.act.scene.namespace, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def apply(self, manifest: Manifest, *arguments: str) -> tuple[int, str]:
        metadata = {
            key: value
            for key, value in manifest["metadata"].items()
            if key in ("name", "labels", "annotations", "finalizers")
        }
        document = {**manifest, "metadata": metadata}
        return await self.kubectl("apply", *arguments, "-f", "-", stdin=json.dumps(document))

    async def stored(self, name: str, of: Resource = kinds.CLIQUESETS) -> Manifest | None:
        try:
            found: Manifest = await self.act.world.admin.get(
                of, Key(self.act.scene.namespace, name), type=dict
            )
        except NotFound:
            return None
        return found


def guarded(plane: Plane, name: str, tmp_path: Path, story: Callable[[Guarded], Awaitable[None]]) -> None:
    """A story with webhooks, which are gone when it is over."""

    @asynccontextmanager
    async def guard(act: Act) -> AsyncIterator[Guarded]:
        found = Guarded(act, tmp_path)
        try:
            yield found
        finally:
            await found.stop()

    async def played(act: Act) -> None:
        async with guard(act) as found:
            await story(found)

    plane.play(name, played, operator=False)


MAIN: Manifest = {"name": "main", "image": "registry.example/serve:1"}


def made_of(container: Manifest, **pod: object) -> Manifest:
    worker = role("worker", 1)
    worker["spec"]["podSpec"] = {"containers": [container], **pod}
    return worker


BAD: dict[str, tuple[Manifest, str]] = {
    "imgae": (
        train(made_of({"name": "main", "imgae": "x"})),
        f"{PODS}.containers[0].imgae: unknown field; did you mean image?",
    ),
    "quantity": (
        train(made_of({**MAIN, "resources": {"requests": {"memory": "8 GB"}}})),
        f"{PODS}.containers[0].resources.requests[memory]: must be a quantity such as 2, 500m or 8Gi, not the "
        "text '8 GB'",
    ),
    "priority": (
        train(role("worker", 1), priorityClassName="nobodys"),
        "spec.template.priorityClassName: no PriorityClass with name nobodys was found",
    ),
    "scheduler": (
        train(made_of(MAIN, schedulerName="nobodys-scheduler")),
        f"{PODS}.schedulerName: 'nobodys-scheduler': scheduler backend is not enabled in Grove",
    ),
    "topology": (
        train(role("worker", 1), topologyConstraint={"topologyName": "dc", "pack": {"required": "rack"}}),
        'spec.template.topologyConstraint.topologyName: ClusterTopologyBinding "dc" not found',
    ),
    "limit": (
        train(role("worker", 4), replicas=6),
        "spec.replicas: asks for 24 pods (6 replicas of 4 pods each); this operator allows 20 pods",
    ),
    "wrong-type": (
        train(made_of(MAIN, hostNetwork="yes")),
        f"{PODS}.hostNetwork: must be true or false, not the text 'yes'",
    ),
}


def test_kubectl_apply_is_refused_with_the_sentence_that_helps(plane: Plane, tmp_path: Path) -> None:
    async def story(guard: Guarded) -> None:
        await guard.start(limits=Limits(pods_per_set=20))
        for manifest, sentence in BAD.values():
            code, said = await guard.apply(manifest)
            assert code == 1
            assert sentence in said
        assert await guard.stored("train") is None
        code, said = await guard.apply(
            train(made_of({**MAIN, "resources": {"requests": {"cpu": "x"}}}), terminationDelay="soon")
        )
        assert "'soon' is not a duration" in said
        assert "resources.requests[cpu]" in said

    guarded(plane, "webhook-bad", tmp_path, story)


def test_what_is_left_out_is_filled_in_and_a_good_set_runs(plane: Plane, tmp_path: Path) -> None:
    async def story(guard: Guarded) -> None:
        await guard.start(limits=Limits(pods_per_set=20))
        scene = guard.act.scene
        await scene.nodes(2)
        short = train({"name": "worker", "spec": {"podSpec": {"containers": [MAIN]}}})
        short["metadata"]["annotations"] = {"grove.io/typo": "x"}
        code, said = await guard.apply(short)
        assert code == 0, said
        assert "Warning: metadata.annotations[grove.io/typo]: has no effect here: " in said
        found = await guard.stored("train")
        assert found is not None
        spec = found["spec"]["template"]["cliques"][0]["spec"]
        assert (spec["roleName"], spec["replicas"], spec["minAvailable"]) == ("", 1, 1)
        assert found["spec"]["template"]["terminationDelay"] == "4h0m0s"
        await scene.until_running("train-0", 1)
        code, said = await guard.kubectl("scale", "podcliquesets/train", "--replicas=21")
        assert code == 1
        assert "spec.replicas: asks for 21 replicas; this operator allows 20 pods in one set" in said
        code, said = await guard.kubectl("scale", "podcliquesets/train", "--replicas=2")
        assert code == 0, said
        edited = train(made_of(MAIN, schedulerName="other"))
        code, said = await guard.apply(edited)
        assert code == 1
        assert "field is immutable" in said
        code, said = await guard.kubectl("scale", "podcliquesets/train", "--replicas=0")
        assert code == 0, said

    guarded(plane, "webhook-good", tmp_path, story)


def test_a_set_that_has_become_invalid_can_be_scaled_down_released_and_deleted(
    plane: Plane, tmp_path: Path
) -> None:
    async def story(guard: Guarded) -> None:
        wrong = train(role("worker", 1), replicas=3)
        wrong["metadata"] |= {
            "annotations": {labels.SCHEDULER_BACKEND: "gone"},
            "finalizers": ["example.com/keep"],
        }
        code, said = await guard.apply(wrong)
        assert code == 0, said
        running = await guard.start()
        code, said = await guard.apply({**wrong, "spec": {**wrong["spec"], "replicas": 4}})
        assert code == 1
        assert "'gone': scheduler backend is not enabled in Grove" in said
        code, said = await guard.apply({**wrong, "spec": {**wrong["spec"], "replicas": 1}})
        assert code == 0, said
        assert "not accepted, as before: " in said
        code, said = await guard.kubectl("delete", "podcliquesets/train", "--wait=false")
        assert code == 0, said
        # While nobody answers, nothing can be written, but what goes can go.
        await running.kill()
        guard.act.operators.remove(running)
        code, said = await guard.apply(train(role("worker", 1), name="other"))
        assert code == 1
        assert "failed calling webhook" in said
        released = json.dumps({"metadata": {"finalizers": None}})
        code, said = await guard.kubectl("patch", "podcliquesets/train", "--type=merge", "-p", released)
        assert code == 0, said
        assert await guard.stored("train") is None

    guarded(plane, "webhook-invalid", tmp_path, story)


def test_children_are_protected_where_the_authorizer_is_enabled(plane: Plane, tmp_path: Path) -> None:
    async def story(guard: Guarded) -> None:
        await guard.start(authorizer=Authorizer(enabled=True))
        scene = guard.act.scene
        await scene.nodes(1)
        code, said = await guard.apply(train(role("worker", 1)))
        assert code == 0, said
        await scene.until_running("train-0", 1)
        code, said = await guard.kubectl("delete", "podgangs/train-0")
        assert code == 1
        assert "admission denied, deletion of resource: " in said
        code, said = await guard.kubectl("label", "podcliques/train-0-worker", "team=a")
        assert code == 1
        assert "edit the set, or annotate it with grove.io/disable-managed-resource-protection" in said
        (pod,) = scene.pods()
        name = pod["metadata"]["name"]
        code, said = await guard.kubectl("label", f"pods/{name}", "team=a")
        assert code == 0, said
        code, said = await guard.kubectl("label", f"pods/{name}", f"{labels.POD_GANG}=other", "--overwrite")
        assert code == 1
        code, said = await guard.kubectl("delete", "podcliquesets/train")
        assert code == 0, said
        await scene.until(lambda: not scene.pods(), "the pods are gone")

    guarded(plane, "webhook-guard", tmp_path, story)


def test_other_kinds_are_asked_about_too(plane: Plane, tmp_path: Path) -> None:
    async def story(guard: Guarded) -> None:
        await guard.start()
        levels = [{"domain": "rack", "key": "a"}, {"domain": "rack", "key": "b"}]
        binding = {
            "apiVersion": kinds.TOPOLOGY_BINDINGS.api_version,
            "kind": kinds.TOPOLOGY_BINDINGS.kind,
            "metadata": {"name": "twice"},
            "spec": {"levels": levels},
        }
        code, said = await guard.apply(binding)
        assert code == 1
        assert 'spec.levels[1].domain: Duplicate value: "rack"' in said
        gang = {
            "apiVersion": kinds.GANGS.api_version,
            "kind": kinds.GANGS.kind,
            "metadata": {"name": "mine"},
            "spec": {"podgroups": [{"name": "Not_A_Label", "minReplicas": 1, "podReferences": []}]},
        }
        code, said = await guard.apply(gang)
        assert code == 1
        assert "spec.podgroups[0].name: 'Not_A_Label' must be a DNS label" in said

    guarded(plane, "webhook-kinds", tmp_path, story)
