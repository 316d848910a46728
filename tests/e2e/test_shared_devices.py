"""Devices that pods share, and NVLink domains, where Kubernetes' own scheduler and controllers hand them out.

Devices are played: a slice of them that every node reaches. So is NVIDIA's driver, as far as an operator meets
it: its definition, and a template of claims for each ComputeDomain.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import CRDS, Act, RealWorld, wait_for, wait_gone
from tests.e2e.scene import NAMESPACES, Scene
from tests.scenarios import rs1
from tests.scenarios.nvlink import ALONE, DEFINITION, GROUP, MIXED, cliqueset, joined, mixed, role
from tests.scenarios.stories import device

from grove.api import kinds
from grove.errors import Invalid
from grove.meta import Key, Manifest
from grove.testing import make

pytestmark = pytest.mark.real

SCALED: Final = {each.kind: each for each in (kinds.CLIQUESETS, kinds.SCALING_GROUPS, kinds.CLIQUES)}
CLAIMS: Final = kinds.RESOURCE_CLAIMS
CHANNELS: Final = "compute-domain-default-channel.nvidia.com"
PATIENCE: Final = 40.0
#: kube-scheduler 1.35 allocates a claim when the whole gang has nodes, and finds no node for its second pod
#: before that, and 1.37 none for the second PodGroup of a composite: a set whose pods share one within a gang is
#: refused. With these settings of the profile it is not.
APART: Final = {"1.35": "", "1.37": "mode: Merged"}
RESOURCES: Final = "resource.k8s.io/v1"


async def devices(scene: Scene, *names: str, count: int = 32) -> None:
    """So many devices of each class, within reach of every node."""
    for name in names:
        select = [{"cel": {"expression": f'device.driver == "{name}"'}}]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        listed = [{"name": f"d{number}"} for number in range(count)]
        slice_ = {"driver": name, "pool": pool, "allNodes": True, "devices": listed}
        for kind, spec in (("DeviceClass", {"selectors": select}), ("ResourceSlice", slice_)):
            await scene.apply(
                {"apiVersion": RESOURCES, "kind": kind, "metadata": {"name": name}, "spec": spec}
            )


def phases(scene: Scene) -> list[str]:
    return [(pod.get("status") or {}).get("phase", "") for pod in scene.pods()]


# RS1 ----------------------------------------------------------------------------------------------


def assert_no_pod_was_without_its_claims(scene: Scene) -> None:
    """Whenever a pod was there, so was every claim that it names; but for claims that went with their owner."""
    there: set[str] = set()
    gone: set[str] = set()
    pods: dict[str, set[str]] = {}
    for seen in sorted(scene.ledger.history, key=lambda each: each.version):
        assert not seen.missed, "the watch has a gap"
        metadata = seen.object["metadata"]
        deleted = seen.type == "DELETED"
        if seen.resource in SCALED.values() and (deleted or metadata.get("deletionTimestamp")):
            gone.add(metadata["uid"])
        elif seen.resource == CLAIMS and deleted:
            there.discard(seen.name)
            if metadata["ownerReferences"][0]["uid"] in gone:
                pods = {name: claims - {seen.name} for name, claims in pods.items()}
        elif seen.resource == CLAIMS:
            there.add(seen.name)
        elif seen.resource == kinds.PODS and deleted:
            pods.pop(seen.name, None)
        elif seen.resource == kinds.PODS and seen.type == "ADDED":
            named = seen.object["spec"].get("resourceClaims") or ()
            pods[seen.name] = {each["resourceClaimName"] for each in named}
        missing = {name: claims - there for name, claims in pods.items()}
        assert not any(missing.values()), (seen.type, seen.name, missing)


def refusal(scene: Scene) -> str:
    """Why the set is refused; blank if it is not."""
    accepted = scene.condition(kinds.CLIQUESETS, rs1.NAME, "Accepted")
    return str(accepted.get("message", "")) if accepted.get("status") == "False" else ""


def test_rs1_claims_are_counted_exactly_while_everything_is_scaled_and_pods_run_with_them(
    plane: Plane,
) -> None:
    async def counted(scene: Scene, claims: int) -> None:
        """So many claims, all of them allocated, and none more; every pod runs."""

        def reached() -> bool:
            found = scene.ledger.all(CLAIMS)
            taken = sum(bool((claim.get("status") or {}).get("allocation")) for claim in found)
            return len(found) == taken == claims and set(phases(scene)) == {"Running"}

        await scene.until(reached, f"{claims} claims", seconds=PATIENCE)
        await scene.ledger.quiet(0.7)
        assert reached(), scene.describe()
        owners = [each for of in SCALED.values() for each in scene.ledger.all(of)]
        rs1.assert_owned(scene.ledger.all(CLAIMS), owners)

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(2)
        await devices(scene, *rs1.CLASSES)
        elsewhere = f"{scene.namespace}-outside"
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}}
        await scene.user.create(NAMESPACES, namespace)
        scene.made.append((NAMESPACES, elsewhere))
        template = make.object_manifest(
            kinds.RESOURCE_CLAIM_TEMPLATES, "outside", {"spec": device("outside")}, namespace=elsewhere
        )
        del template["metadata"]["uid"]
        await scene.user.create(kinds.RESOURCE_CLAIM_TEMPLATES, template)
        await scene.apply(rs1.workload(elsewhere=elsewhere))
        if scene.judge.name in APART:
            await scene.until(lambda: bool(refusal(scene)), "the set is refused")
            assert "of a gang would share a claim of" in refusal(scene)
            assert scene.pods() == scene.ledger.all(CLAIMS) == []
            if not APART[scene.judge.name]:
                return
            await act.kill_operator()
            await act.start_operator(replace(scene.judge, settings=APART[scene.judge.name]).configuration)
        await counted(scene, rs1.FIRST)
        assert rs1.used(scene.pods()) == rs1.wanted_claims()
        for (kind, name), replicas, claims in rs1.STEPS:
            await scene.scale(SCALED[kind], name, replicas)
            await counted(scene, claims)
        assert rs1.used(scene.pods()) == rs1.wanted_claims(groups=3)
        assert_no_pod_was_without_its_claims(scene)
        await scene.delete(kinds.CLIQUESETS, rs1.NAME)
        await scene.until(
            lambda: not scene.ledger.all(CLAIMS) and not scene.ledger.all(kinds.PODS),
            "no claim is left",
            seconds=PATIENCE,
        )

    plane.play("rs1", story, also=(CLAIMS, kinds.SCALING_GROUPS))


def test_pods_of_one_role_share_a_claim_beside_another_role(plane: Plane) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(3)
        await devices(scene, rs1.CLASSES[0])
        sharing = [{"name": rs1.OWN[0], "scope": "AllReplicas"}]
        await scene.apply(
            make.cliqueset_manifest(
                rs1.NAME,
                [make.template("worker", 2) | {"resourceSharing": sharing}, make.template("router", 1)],
                template={
                    "resourceClaimTemplates": [
                        {"name": rs1.OWN[0], "templateSpec": {"spec": device(rs1.OWN[0])}}
                    ]
                },
            )
        )
        if scene.judge.minor == "1.35":
            await scene.until(lambda: bool(refusal(scene)), "the set is refused")
            assert "2 pods of a gang would share a claim of" in refusal(scene)
            return
        await scene.until_running(f"{rs1.NAME}-0", 3)
        [claim] = scene.ledger.all(CLAIMS)
        assert claim["status"]["allocation"]

    plane.play("one-role", story, also=(CLAIMS,))


def test_rs1_what_is_shared_by_whom_cannot_be_edited(plane: Plane) -> None:
    async def story(act: Act) -> None:
        await act.scene.apply(rs1.workload())
        for edit, field in rs1.EDITS.values():
            edited = rs1.workload()
            edit(edited["spec"]["template"])
            with pytest.raises(Invalid, match="field is immutable") as refused:
                await act.scene.apply(edited)
            assert f"{field}: Forbidden" in str(refused.value)

    plane.play("rs1-edits", story, operator=False)


# NVLink domains -----------------------------------------------------------------------------------

Story = Callable[[Act], Awaitable[None]]


@asynccontextmanager
async def served(world: RealWorld) -> AsyncIterator[None]:
    """The definition of ComputeDomains, for as long as the block lasts."""
    await define(world)
    try:
        yield
    finally:
        await undefine(world)


async def define(world: RealWorld) -> None:
    await world.create(DEFINITION)
    key = Key("", DEFINITION["metadata"]["name"])

    def established(crd: Manifest) -> bool:
        listed = (crd.get("status") or {}).get("conditions") or ()
        return any((each["type"], each["status"]) == ("Established", "True") for each in listed)

    await wait_for(world.admin, CRDS, key, established)


async def undefine(world: RealWorld) -> None:
    key = Key("", DEFINITION["metadata"]["name"])
    await world.admin.delete(CRDS, key)
    await wait_gone(world.admin, CRDS, key)


@asynccontextmanager
async def driver(scene: Scene) -> AsyncIterator[None]:
    """NVIDIA's, as far as pods need it: a template of claims for each domain, which goes with it."""
    await devices(scene, CHANNELS)
    request = {"name": "channel", "exactly": {"deviceClassName": CHANNELS}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    known: set[str] = set()

    def fresh() -> list[Manifest]:
        return [
            each for each in scene.ledger.all(kinds.COMPUTE_DOMAINS) if each["metadata"]["uid"] not in known
        ]

    async def play() -> None:
        while True:
            await scene.ledger.until(lambda: bool(fresh()), "there is a domain", seconds=3600)
            for domain in fresh():
                known.add(domain["metadata"]["uid"])
                owner = {
                    "apiVersion": domain["apiVersion"],
                    "kind": domain["kind"],
                    "name": domain["metadata"]["name"],
                    "uid": domain["metadata"]["uid"],
                }
                name = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
                metadata = {"name": name, "namespace": scene.namespace, "ownerReferences": [owner]}
                template = {"apiVersion": RESOURCES, "kind": "ResourceClaimTemplate", "metadata": metadata}
                # That of a domain of the same name goes with it, but nobody says when.
                await scene.delete(kinds.RESOURCE_CLAIM_TEMPLATES, name)
                await wait_gone(scene.user, kinds.RESOURCE_CLAIM_TEMPLATES, Key(scene.namespace, name))
                await scene.user.create(kinds.RESOURCE_CLAIM_TEMPLATES, {**template, "spec": spec})

    task = asyncio.create_task(play(), name="driver")
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def with_domains(plane: Plane, name: str, story: Story) -> None:
    """A story with NVIDIA's driver, and an operator that may use it."""

    async def played() -> None:
        also = (kinds.COMPUTE_DOMAINS, kinds.SCALING_GROUPS, CLAIMS)
        async with (
            served(plane.world),
            plane.world.act(name, operator=False, also=also) as act,
            driver(act.scene),
        ):
            await act.start_operator(enabled(act))
            await story(act)

    plane.run(played())


def enabled(act: Act) -> str:
    return f"{act.world.judge.configuration}\nnetwork: {{autoMNNVLEnabled: true}}\n"


def domains(scene: Scene) -> set[str]:
    return {each["metadata"]["name"] for each in scene.ledger.all(kinds.COMPUTE_DOMAINS)}


async def accepted(scene: Scene, status: str, name: str = "job") -> tuple[str, str]:
    """Why a set is or is not accepted, once its present state is judged so."""

    def told() -> Manifest:
        return scene.condition(kinds.CLIQUESETS, name, "Accepted")

    def judged() -> bool:
        found = scene.ledger.get(kinds.CLIQUESETS, name) or {}
        return (
            bool(told())
            and told()["status"] == status
            and told().get("observedGeneration") == found["metadata"]["generation"]
        )

    await scene.until(judged, f"{name} is judged: {status}", seconds=PATIENCE)
    return told()["reason"], told()["message"]


def test_mnnvl_enabled_each_clique_gets_the_claims_that_it_should_and_its_pods_run_with_them(
    plane: Plane,
) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(2)
        await scene.apply(mixed())
        await scene.until(lambda: phases(scene) == ["Running"] * 5, "all pods run", seconds=PATIENCE)
        assert joined(scene.pods()) == MIXED
        assert domains(scene) == {"job-0-default"}
        # Made by Kubernetes' own controller from the driver's template, one for each pod that joins.
        owners = {claim["metadata"]["ownerReferences"][0]["kind"] for claim in scene.ledger.all(CLAIMS)}
        assert (len(scene.ledger.all(CLAIMS)), owners) == (2, {"Pod"})
        domain = scene.ledger.get(kinds.COMPUTE_DOMAINS, "job-0-default") or {}
        assert domain["spec"] == {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": "job-0-default"}},
        }
        # Without the annotation there is neither domain nor claim.
        await scene.apply(cliqueset([role("gpu")], name="plain"))
        await scene.until(lambda: scene.running("plain-0", 1), "it runs without", seconds=PATIENCE)
        assert joined(scene.pods("plain-0")) == {"plain-0-gpu-0": ([], ALONE)}
        assert domains(scene) == {"job-0-default"}

    with_domains(plane, "mnnvl", story)


def test_mnnvl_enabled_domains_follow_the_replicas_and_what_somebody_does_to_them(plane: Plane) -> None:
    async def reached(scene: Scene, replicas: int) -> None:
        await scene.until(
            lambda: (
                domains(scene) == {f"job-{number}-a" for number in range(replicas)}
                and phases(scene) == ["Running"] * replicas
            ),
            f"{replicas} domains",
            seconds=PATIENCE,
        )

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(2)
        await scene.apply(cliqueset([role("gpu")], group="a", replicas=2))
        await reached(scene, 2)
        for replicas in (3, 1, 0, 1):
            await scene.scale(kinds.CLIQUESETS, "job", replicas)
            await reached(scene, replicas)
        before = (scene.ledger.get(kinds.COMPUTE_DOMAINS, "job-0-a") or {})["metadata"]["uid"]
        with pytest.raises(Invalid, match="immutable"):
            await scene.edit(kinds.COMPUTE_DOMAINS, "job-0-a", {"spec": {"numNodes": 3}})
        await scene.delete(kinds.COMPUTE_DOMAINS, "job-0-a")
        await scene.until(
            lambda: (
                (scene.ledger.get(kinds.COMPUTE_DOMAINS, "job-0-a") or {})
                .get("metadata", {})
                .get("uid", before)
                != before
            ),
            "the domain is made again",
        )
        # The annotation of a set cannot be changed: the set says so, and what runs goes on.
        await scene.edit(kinds.CLIQUESETS, "job", {"metadata": {"annotations": {GROUP: "b"}}})
        await scene.until(
            lambda: scene.condition(kinds.CLIQUESETS, "job", "Accepted").get("status") == "False",
            "the edit is refused",
        )
        told = scene.condition(kinds.CLIQUESETS, "job", "Accepted")
        assert told["message"].startswith(f"metadata.annotations[{GROUP}]: cannot be changed")
        assert (domains(scene), phases(scene)) == ({"job-0-a"}, ["Running"])
        await scene.delete(kinds.CLIQUESETS, "job")
        await reached(scene, 0)

    with_domains(plane, "mnnvl-scaled", story)


def test_mnnvl_enabled_what_is_wrong_with_an_annotation_is_said_and_none_opts_out(plane: Plane) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(2)
        await scene.apply(
            cliqueset([role("gpu", group="Not A Label")], name="invalid"),
            cliqueset([role("cpu", gpus=0, group="a"), role("gpu", group="none")], name="ignored"),
        )
        reason, message = await accepted(scene, "False", "invalid")
        assert reason == "Invalid"
        assert message.startswith(f"spec.template.cliques[0].annotations[{GROUP}]")
        _, message = await accepted(scene, "True", "ignored")
        assert "none of its pods asks for nvidia.com/gpu" in message
        await scene.until(lambda: scene.running("ignored-0", 2), "it runs without", seconds=PATIENCE)
        assert domains(scene) == set()
        assert scene.pods("invalid-0") == []
        # Of a role, the API server itself refuses another group.
        marked = cliqueset([role("gpu", group="a")])
        await scene.apply(marked)
        with pytest.raises(Invalid, match=f"annotation {GROUP} is immutable"):
            await scene.apply(cliqueset([role("gpu", group="b")]))

    with_domains(plane, "mnnvl-marks", story)


def test_mnnvl_disabled_or_without_the_driver_a_set_that_asks_for_it_is_refused_until_it_is_there(
    plane: Plane,
) -> None:
    asking, plain = cliqueset([role("gpu")], group="a"), cliqueset([role("gpu")], name="plain")

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(2)
        await act.start_operator()
        await scene.apply(asking, plain)
        reason, message = await accepted(scene, "False")
        assert reason == "Unsupported"
        assert "MNNVL is not enabled in the operator configuration" in message
        await scene.until(lambda: scene.running("plain-0", 1), "the other set runs", seconds=PATIENCE)

        await act.kill_operator()
        await act.start_operator(enabled(act))
        await scene.until(
            lambda: (
                "does not serve computedomains.resource.nvidia.com"
                in scene.condition(kinds.CLIQUESETS, "job", "Accepted")["message"]
            ),
            "it says that the driver is missing",
        )
        await define(act.world)
        try:
            await wait_for(
                act.world.admin,
                kinds.COMPUTE_DOMAINS,
                Key(scene.namespace, "job-0-a"),
                lambda _: True,
                seconds=PATIENCE,
            )
            await accepted(scene, "True")
            await scene.until(lambda: len(scene.pods("job-0")) == 1, "its pod is there", seconds=PATIENCE)
            assert joined(scene.pods("job-0")) == {"job-0-gpu-0": (["job-0-a"], [["mnnvl-claim"], []])}
            await scene.delete(kinds.CLIQUESETS, "job")
            await wait_gone(
                act.world.admin, kinds.COMPUTE_DOMAINS, Key(scene.namespace, "job-0-a"), seconds=PATIENCE
            )
        finally:
            await undefine(act.world)

    plane.play("mnnvl-missing", story, operator=False)
