"""Devices that pods share: claims come before their pods, outlive them, and are never anybody else's."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import pytest
from tests.scenarios.crashing import REACHED, Story
from tests.scenarios.stories import (
    EVENTS,
    NAMESPACES,
    STAGES,
    device,
    pass_time,
    sharing_devices,
)

from grove.api import kinds, labels
from grove.errors import Invalid
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import OPERATOR, World, run_world


def shared(name: str, scope: str = "AllReplicas", **more: object) -> Manifest:
    return {"name": name, "scope": scope, **more}


def sharing(
    of_set: Iterable[Manifest] = (),
    of_worker: Iterable[Manifest] = (),
    *,
    replicas: int = 1,
    workers: int = 2,
    shutdown: str = "",
) -> Manifest:
    """A set `train` with a leader and workers, and with its own templates `t` and `u`."""
    worker = {**make.template("worker", workers), "resourceSharing": list(of_worker)}
    worker["spec"]["minAvailable"] = 1
    if shutdown:
        worker["annotations"] = {"embedded.grove.io/shutdown": shutdown}
        worker["spec"]["podSpec"]["terminationGracePeriodSeconds"] = 3600
    return make.cliqueset_manifest(
        "train",
        [make.template("leader", 1), worker],
        replicas=replicas,
        template={
            "resourceClaimTemplates": [
                {"name": each, "templateSpec": {"spec": device(each)}} for each in "tu"
            ],
            "resourceSharing": list(of_set),
        },
    )


EVERYTHING: Final = sharing(
    [shared("t"), shared("u", "PerReplica", filter={"childCliqueNames": ["worker"]})],
    [shared("t"), shared("u", "PerReplica")],
    replicas=2,
)


async def claims(world: World) -> set[str]:
    return {each["metadata"]["name"] for each in await world.all(kinds.RESOURCE_CLAIMS)}


async def until_running(world: World, *gangs: str) -> None:
    async def all_run() -> bool:
        return all([await world.phase(gang) == "Running" for gang in gangs])

    await world.until(all_run, f"{', '.join(gangs)} run")


async def condition(world: World, type_: str) -> Manifest:
    found = await world.get(kinds.CLIQUESETS, "train") or {}
    listed = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == type_), {})


def test_every_claim_exists_before_a_pod_that_uses_it_and_pods_use_them_in_order() -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(EVERYTHING)
        await until_running(world, "train-0", "train-1")
        assert await claims(world) == {
            "train-all-t",
            *(
                f"train-{replica}-{rest}"
                for replica in range(2)
                for rest in ("u", "worker-all-t", "worker-0-u", "worker-1-u")
            ),
        }
        used = {
            pod["spec"]["hostname"]: [each["resourceClaimName"] for each in pod["spec"]["resourceClaims"]]
            for pod in await world.pods()
        }
        assert used["train-1-leader-0"] == ["train-all-t"]
        assert used["train-1-worker-1"] == [
            "train-all-t",
            "train-1-u",
            "train-1-worker-all-t",
            "train-1-worker-1-u",
        ]
        assert guard.broken == []

    run_world(story)


def test_each_claim_belongs_to_whose_pods_share_it_and_asks_for_what_its_template_says() -> None:
    async def story(world: World) -> None:
        await world.apply(EVERYTHING)
        await world.settle()
        found = {each["metadata"]["name"]: each for each in await world.all(kinds.RESOURCE_CLAIMS)}
        owners = {name: each["metadata"]["ownerReferences"] for name, each in found.items()}
        assert {name: [(ref["kind"], ref["name"]) for ref in refs] for name, refs in owners.items()} == {
            name: [("PodClique", name[: len("train-0-worker")])]
            if "worker" in name
            else [("PodCliqueSet", "train")]
            for name in found
        }
        assert all(
            ref["controller"] and ref["blockOwnerDeletion"] for refs in owners.values() for ref in refs
        )
        common = {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "train",
            "app.kubernetes.io/component": "resource-claim",
        }
        pod = {"grove.io/podclique": "train-0-worker", "grove.io/podclique-pod-index": "1"}
        assert found["train-all-t"]["metadata"]["labels"] == common
        assert found["train-1-u"]["metadata"]["labels"] == {
            **common,
            "grove.io/podcliqueset-replica-index": "1",
        }
        assert found["train-0-worker-1-u"]["metadata"]["labels"] == {**common, **pod}
        request = found["train-0-worker-1-u"]["spec"]["devices"]["requests"][0]
        assert request["exactly"]["deviceClassName"] == "u.example.com"

    run_world(story)


def test_the_claim_of_a_pod_that_is_scaled_away_goes_only_when_the_pod_is_gone() -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(sharing(of_worker=[shared("u", "PerReplica")], shutdown="60s"))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 1, kinds.CLIQUES)
        await pass_time(30)
        assert await claims(world) == {"train-0-worker-0-u", "train-0-worker-1-u"}
        await world.settle(quiet=90)
        assert await claims(world) == {"train-0-worker-0-u"}
        assert guard.broken == []

    run_world(story)


def test_a_pod_that_returns_while_its_predecessor_stops_finds_the_same_claim() -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(sharing(of_worker=[shared("u", "PerReplica")], shutdown="60s"))
        await until_running(world, "train-0")
        before = await world.get(kinds.RESOURCE_CLAIMS, "train-0-worker-1-u") or {}
        await world.scale("train-0-worker", 1, kinds.CLIQUES)
        await pass_time(5)
        await world.scale("train-0-worker", 2, kinds.CLIQUES)
        await world.settle(quiet=90)
        after = await world.get(kinds.RESOURCE_CLAIMS, "train-0-worker-1-u") or {}
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert [pod["status"]["phase"] for pod in await world.pods()] == ["Running"] * 3
        assert guard.broken == []

    run_world(story)


@pytest.mark.parametrize("refused", [False, True], ids=["an accepted set", "a refused set"])
def test_the_claims_of_a_replica_that_is_scaled_away_go_when_its_pods_are_gone(refused: bool) -> None:
    async def story(world: World) -> None:
        await world.apply(sharing([shared("t"), shared("u", "PerReplica")], replicas=2, shutdown="60s"))
        await until_running(world, "train-0", "train-1")
        if refused:
            wrong = {"metadata": {"annotations": {labels.UPDATE_PAUSED: "perhaps"}}}
            await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), wrong)
            await world.settle()
        await world.scale("train", 1)
        await pass_time(30)
        assert await claims(world) == {"train-all-t", "train-0-u", "train-1-u"}
        await world.settle(quiet=90)
        assert await claims(world) == {"train-all-t", "train-0-u"}

    run_world(story)


def test_a_set_that_is_scaled_to_zero_holds_no_devices_and_gets_them_again() -> None:
    async def story(world: World) -> None:
        await world.apply(EVERYTHING)
        await until_running(world, "train-0", "train-1")
        everything = await claims(world)
        await world.scale("train", 0)
        await world.settle()
        assert await claims(world) == set()
        await world.scale("train", 2)
        await until_running(world, "train-0", "train-1")
        assert await claims(world) == everything
        await world.scale("train-0-worker", 0, kinds.CLIQUES)
        await world.settle()
        assert not [name for name in await claims(world) if name.startswith("train-0-worker")]
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))
        await world.settle()
        assert await claims(world) == set()

    run_world(story)


@pytest.mark.parametrize("namespace", ["", "other"])
def test_pods_wait_for_a_template_that_does_not_exist_and_start_when_it_appears(namespace: str) -> None:
    name = f"{namespace or 'default'}/elsewhere"

    async def story(world: World) -> None:
        await world.user.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        )
        await world.apply(sharing([shared("elsewhere", namespace=namespace)]))
        await world.settle()
        assert await world.pods() == []
        degraded = await condition(world, "Degraded")
        assert (degraded["status"], degraded["reason"]) == ("True", "ResourceClaimTemplateNotFound")
        assert degraded["message"].startswith(f"ResourceClaimTemplate {name} does not exist")
        assert (
            f"ResourceClaimTemplate {name} does not exist"
            in (await world.condition("train-0", "Scheduled"))["message"]
        )
        told = [each for each in await world.all(EVENTS) if each["reason"] == "ResourceClaimTemplateNotFound"]
        assert [(each["involvedObject"]["name"], each.get("count", 1)) for each in told] == [("train", 1)]

        template = make.object_manifest(
            kinds.RESOURCE_CLAIM_TEMPLATES,
            "elsewhere",
            {"spec": device("elsewhere")},
            namespace=namespace or "default",
        )
        await world.apply(template)
        await until_running(world, "train-0")
        await world.settle()
        assert await condition(world, "Degraded") == {}
        claim = await world.get(kinds.RESOURCE_CLAIMS, "train-all-elsewhere") or {}
        assert (
            claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "elsewhere.example.com"
        )
        cliques = await world.all(kinds.CLIQUES)
        assert [each["status"].get("lastErrors") or [] for each in cliques] == [[], []]

    run_world(story)


def test_a_template_that_goes_takes_no_claim_with_it() -> None:
    async def story(world: World) -> None:
        elsewhere = make.object_manifest(
            kinds.RESOURCE_CLAIM_TEMPLATES, "elsewhere", {"spec": device("elsewhere")}
        )
        await world.apply(elsewhere, sharing([shared("elsewhere", "PerReplica")]))
        await until_running(world, "train-0")
        await world.user.delete(kinds.RESOURCE_CLAIM_TEMPLATES, Key("default", "elsewhere"))
        await world.settle()
        assert await claims(world) == {"train-0-elsewhere"}
        assert (await condition(world, "Degraded"))["reason"] == "ResourceClaimTemplateNotFound"
        assert len(await world.pods()) == 3

    run_world(story)


def test_a_claim_of_somebody_else_is_not_taken_over_and_the_set_says_so() -> None:
    async def story(world: World) -> None:
        theirs = make.object_manifest(kinds.RESOURCE_CLAIMS, "train-all-t", device("theirs"))
        await world.apply(theirs, sharing([shared("t")]))
        await world.settle(quiet=30)
        degraded = await condition(world, "Degraded")
        assert degraded["reason"] == "NameTaken"
        assert "ResourceClaim default/train-all-t already exists" in degraded["message"]
        assert await world.pods() == []
        there = await world.get(kinds.RESOURCE_CLAIMS, "train-all-t") or {}
        assert "ownerReferences" not in there["metadata"]
        assert there["metadata"].get("labels", {}) == {}
        await world.user.delete(kinds.RESOURCE_CLAIMS, Key("default", "train-all-t"))
        await until_running(world, "train-0")
        assert await condition(world, "Degraded") == {}

    run_world(story)


def test_a_claim_that_somebody_deletes_or_strips_of_its_metadata_is_put_right_without_touching_its_spec() -> (
    None
):
    async def story(world: World) -> None:
        await world.apply(sharing([shared("t"), shared("u", "PerReplica")]))
        await until_running(world, "train-0")
        before = await world.get(kinds.RESOURCE_CLAIMS, "train-0-u") or {}
        await world.user.delete(kinds.RESOURCE_CLAIMS, Key("default", "train-all-t"))
        strip = {
            "metadata": {"ownerReferences": None, "labels": {"grove.io/podcliqueset-replica-index": None}}
        }
        await world.user.merge_patch(kinds.RESOURCE_CLAIMS, Key("default", "train-0-u"), strip)
        await world.settle()
        after = await world.get(kinds.RESOURCE_CLAIMS, "train-0-u") or {}
        assert await claims(world) == {"train-all-t", "train-0-u"}
        for field in ("uid", "labels", "ownerReferences"):
            assert after["metadata"][field] == before["metadata"][field]
        assert after["spec"] == before["spec"]

    run_world(story)


def test_a_second_look_and_a_restart_write_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(EVERYTHING)
        await until_running(world, "train-0", "train-1")
        await world.settle()
        before = world.writes()
        operator = world.operator
        assert operator is not None
        operator.controllers["cliqueset"].enqueue(Key("default", "train"))
        await pass_time(20)
        await world.kill_operator()
        await world.start_operator()
        await pass_time(60)
        assert world.writes() == before

    run_world(story)


def test_a_claim_costs_one_write() -> None:
    async def story(world: World) -> None:
        await world.apply(EVERYTHING)
        await until_running(world, "train-0", "train-1")
        await world.settle()
        written = [
            entry.verb
            for entry in world.cluster.requests
            if entry.is_write and entry.user == OPERATOR.name and entry.resource.startswith("resourceclaims")
        ]
        assert written == ["create"] * 9

    run_world(story)


def test_the_api_server_keeps_a_claim_as_it_is() -> None:
    async def story(world: World) -> None:
        await world.apply(sharing([shared("t")]))
        await world.settle()
        with pytest.raises(Invalid, match="field is immutable"):
            await world.user.merge_patch(
                kinds.RESOURCE_CLAIMS, Key("default", "train-all-t"), {"spec": device("other")}
            )

    run_world(story)


#: More than the story below needs; the first test of it checks that.
MOST_WRITES: Final = 56


def small() -> Manifest:
    return sharing_devices(make.cliqueset_manifest("train", {"worker": 2}, replicas=2))


async def life(world: World, settle: Callable[[], Awaitable[None]]) -> None:
    await world.apply(small())
    await settle()
    await world.scale("train-0-worker", 1, kinds.CLIQUES)
    await world.scale("train", 1)
    await settle()


STORY: Final = Story(life)


def test_the_story_is_short_enough_that_every_write_of_it_is_crashed() -> None:
    end, writes = STORY.undisturbed
    assert 30 < writes <= MOST_WRITES
    assert [claim["metadata"]["name"] for claim in end[str(kinds.RESOURCE_CLAIMS)]] == [
        "train-0-u",
        "train-0-worker-0-u",
        "train-0-worker-all-t",
        "train-all-t",
    ]


@REACHED
@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
def test_dying_at_a_write_changes_nothing_in_the_end(number: int, reached: bool) -> None:
    STORY.dies_at(number, reached=reached)


def test_on_1_35_a_set_whose_gangs_share_claims_is_refused_and_one_with_claims_for_each_pod_runs() -> None:
    stage = STAGES["1.35"]

    async def story(world: World) -> None:
        await world.apply(sharing_devices(stage.cliqueset("wide", cliques={"a": 2})))
        await world.apply(sharing_devices(stage.cliqueset("own", cliques={"a": 2}), within_gangs=False))
        await until_running(world, "own-0")
        await world.settle()
        found = {each["metadata"]["name"]: each["status"] for each in await world.all(kinds.CLIQUESETS)}
        accepted = {
            name: next(each for each in status["conditions"] if each["type"] == "Accepted")
            for name, status in found.items()
        }
        assert accepted["own"]["status"] == "True"
        assert (accepted["wide"]["status"], accepted["wide"]["reason"]) == ("False", "Unsupported")
        both = "spec.template.resourceSharing[0], spec.template.cliques[0].resourceSharing[0]"
        assert accepted["wide"]["message"].startswith(f"{both}: 2 pods of a gang")
        assert {each["metadata"]["labels"][labels.PART_OF] for each in await world.pods()} == {"own"}

    run_world(story, stage.options)
