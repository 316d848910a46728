"""What changes in a set or a gang reaches the scheduler's objects; what is taken away there goes away here."""

import pytest
from tests.scenarios.stories import (
    COMPOSITES_137,
    EVENTS,
    GANG_STAGES,
    RACK,
    STAGES,
    History,
    Stage,
    condition_of,
    rack_binding,
    scheduler_objects,
    uid_of,
    until_running,
)

from grove.api import kinds, labels
from grove.backends.kai.topology import TOPOLOGIES
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World, run_world

KAI = STAGES["kai"]
QUEUE = "kai.scheduler/queue"


async def patch_set(world: World, patch: Manifest) -> None:
    await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), patch)
    await world.settle()


async def only_object(world: World) -> Manifest:
    (found,) = await scheduler_objects(world, KAI)
    return found


def test_another_queue_on_the_set_reaches_gang_and_podgroup_and_its_removal_too() -> None:
    async def story(world: World) -> None:
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        for queue, want in (("research", "research"), (None, "default-queue")):
            await patch_set(world, {"metadata": {"labels": {QUEUE: queue}}})
            gang = await world.gang("train-0")
            assert gang is not None
            assert gang["metadata"]["labels"].get(QUEUE) == queue
            assert (await only_object(world))["spec"]["queue"] == want

    run_world(story, KAI.options)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_another_priority_class_replaces_no_pod_and_announces_no_update(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        before = {uid_of(pod) for pod in await world.pods()}
        told = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]["currentGenerationHash"]
        await patch_set(world, {"spec": {"template": {"priorityClassName": "system-node-critical"}}})
        status = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]
        assert status["currentGenerationHash"] == told
        assert "updateProgress" not in status
        assert "UpdateStarted" not in {each["reason"] for each in await world.all(EVENTS)}
        assert {uid_of(pod) for pod in await world.pods()} == before
        # The next update is one, and leaves the priority class as it is.
        manifest = stage.cliqueset(cliques={"worker": 2})
        manifest["spec"]["template"]["cliques"][0]["labels"] = {"version": "2"}
        await patch_set(world, {"spec": {"template": {"cliques": manifest["spec"]["template"]["cliques"]}}})
        await world.settle(seconds=3600)
        status = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]
        assert status["currentGenerationHash"] != told
        assert status["updateProgress"]["updateEndedAt"]
        assert not {uid_of(pod) for pod in await world.pods()} & before

    run_world(story, stage.options)


def test_replicas_below_a_minimum_that_was_left_out_are_refused_until_the_minimum_is_set_too() -> None:
    def of(replicas: int, **fields: int) -> Manifest:
        worker = make.template("worker", replicas)
        worker["spec"] |= fields
        return KAI.cliqueset(cliques=[worker])

    async def story(world: World) -> None:
        await world.apply(of(3))
        await until_running(world, "train-0")
        before = {uid_of(pod) for pod in await world.pods()}
        await world.apply(of(2))
        await world.settle()
        accepted = condition_of(await world.get(kinds.CLIQUESETS, "train"), "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
        assert "2 is below minAvailable, which is 3" in accepted["message"]
        assert "set minAvailable too" in accepted["message"]
        assert {uid_of(pod) for pod in await world.pods()} == before
        await world.apply(of(2, minAvailable=2))
        await world.settle()
        assert condition_of(await world.get(kinds.CLIQUESETS, "train"), "Accepted")["status"] == "True"
        after = {uid_of(pod) for pod in await world.pods()}
        assert (len(after), after < before) == (2, True)
        assert await world.phase("train-0") == "Running"

    run_world(story, KAI.options)


def test_a_decided_minimum_outlives_the_clique_for_which_it_was_decided() -> None:
    def of(replicas: int) -> Manifest:
        return KAI.cliqueset(cliques=[make.template("leader", 1), make.template("worker", replicas)])

    async def story(world: World) -> None:
        await world.apply(of(3))
        await until_running(world, "train-0")
        await world.apply(of(2))
        await world.settle()
        await world.user.delete(kinds.CLIQUES, Key("default", "train-0-worker"))
        await world.settle()
        accepted = condition_of(await world.get(kinds.CLIQUESETS, "train"), "Accepted")
        assert accepted["status"] == "False"
        assert "2 is below minAvailable, which is 3" in accepted["message"]
        await world.apply(of(3))
        await world.settle()
        assert await world.phase("train-0") == "Running"

    run_world(story, KAI.options)


def test_a_role_whose_minimum_was_left_out_is_scaled_to_zero_and_back() -> None:
    def of(replicas: int) -> Manifest:
        return KAI.cliqueset(cliques=[make.template("leader", 1), make.template("worker", replicas)])

    async def story(world: World) -> None:
        await world.apply(of(3))
        await until_running(world, "train-0")
        for replicas in (0, 3):
            await world.apply(of(replicas))
            await world.settle()
            accepted = condition_of(await world.get(kinds.CLIQUESETS, "train"), "Accepted")
            assert (accepted["status"], accepted["reason"]) == ("True", "Valid")
            assert len(await world.pods()) == 1 + replicas
            assert await world.phase("train-0") == "Running"

    run_world(story, KAI.options)


def standalone(backend: str = "kai", **fields: object) -> Manifest:
    """A gang without a set, as another controller than ours may create it."""
    return make.gang_manifest(
        "solo",
        [make.podgroup("solo-worker", 2)],
        labels={labels.SCHEDULER_BACKEND: backend},
        annotations={labels.TOPOLOGY_NAME: "cluster"},
        **fields,  # type: ignore[arg-type]
    )


def test_what_a_gang_no_longer_asks_for_is_taken_off_its_scheduler_object() -> None:
    async def story(world: World) -> None:
        await world.apply(standalone(required=RACK, priority="system-node-critical"))
        await world.settle()
        before = await only_object(world)
        assert before["spec"]["topologyConstraint"]["requiredTopologyLevel"] == RACK
        assert before["spec"]["priorityClassName"] == "system-node-critical"
        await world.apply(standalone())
        await world.settle()
        after = await only_object(world)
        assert "topologyConstraint" not in after["spec"]
        assert "priorityClassName" not in after["spec"]
        assert uid_of(after) == uid_of(before)

    run_world(story, KAI.options)


def test_on_1_37_what_cannot_be_changed_in_place_is_replaced() -> None:
    stage = STAGES["1.37"]

    async def story(world: World) -> None:
        await world.apply(standalone(backend="default", required=RACK))
        await world.settle()
        (before,) = await world.all(COMPOSITES_137)
        assert before["spec"]["schedulingConstraints"] == {"topology": [{"key": RACK}]}
        await world.apply(standalone(backend="default"))
        await world.settle()
        (after,) = await world.all(COMPOSITES_137)
        assert "schedulingConstraints" not in after["spec"]
        assert uid_of(after) != uid_of(before)

    run_world(story, stage.options)


def test_a_gang_that_changes_from_required_to_preferred_says_so_to_the_scheduler() -> None:
    async def story(world: World) -> None:
        await world.apply(standalone(required=RACK))
        await world.settle()
        await world.apply(standalone(preferred=RACK))
        await world.settle()
        constraint = (await only_object(world))["spec"]["topologyConstraint"]
        assert constraint == {"topology": "cluster", "preferredTopologyLevel": RACK}

    run_world(story, KAI.options)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_a_status_of_a_gang_reaches_no_scheduler_object(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, *stage.objects) as history:
            await world.apply(stage.cliqueset(cliques={"worker": 2}))
            await until_running(world, "train-0")
            await world.settle()
        writes = [
            entry
            for entry in world.cluster.requests
            if entry.verb == "apply" and "grove-operator" in entry.user
        ]
        # Koordinator's objects are written once more when the gates are open, whatever the status says.
        times = 2 if stage.backend == "koordinator" else 1
        assert len(writes) == times * len(history.of(type_="ADDED"))

    run_world(story, stage.options)


def test_other_levels_in_the_binding_replace_kais_topology() -> None:
    async def story(world: World) -> None:
        await world.apply(rack_binding())
        await world.settle()
        before = await world.get(TOPOLOGIES, "cluster")
        levels = [{"domain": "zone", "key": "topology.kubernetes.io/zone"}, {"domain": "rack", "key": RACK}]
        await world.user.merge_patch(
            kinds.TOPOLOGY_BINDINGS, Key("", "cluster"), {"spec": {"levels": levels}}
        )
        await world.settle()
        after = await world.get(TOPOLOGIES, "cluster")
        assert after is not None
        assert uid_of(after) != uid_of(before)
        assert [level["nodeLabel"] for level in after["spec"]["levels"]] == [each["key"] for each in levels]
        binding = await world.get(kinds.TOPOLOGY_BINDINGS, "cluster")
        assert condition_of(binding, "SchedulerTopologyDrift")["status"] == "False"

    run_world(story, KAI.options)


def test_kais_topology_deleted_by_hand_comes_back_and_goes_with_its_binding() -> None:
    async def story(world: World) -> None:
        await world.apply(rack_binding())
        await world.settle()
        before = uid_of(await world.get(TOPOLOGIES, "cluster"))
        await world.user.delete(TOPOLOGIES, Key("", "cluster"))
        await world.settle()
        assert uid_of(await world.get(TOPOLOGIES, "cluster")) not in ("", before)
        await world.user.delete(kinds.TOPOLOGY_BINDINGS, Key("", "cluster"))
        await world.settle()
        assert await world.get(TOPOLOGIES, "cluster") is None

    run_world(story, KAI.options)


def test_a_topology_of_somebody_else_is_compared_and_never_changed() -> None:
    async def story(world: World) -> None:
        theirs: Manifest = {
            "apiVersion": TOPOLOGIES.api_version,
            "kind": "Topology",
            "metadata": {"name": "cluster"},
            "spec": {"levels": [{"nodeLabel": "example.com/block"}]},
        }
        await world.apply(theirs, rack_binding())
        await world.settle()
        kept = await world.get(TOPOLOGIES, "cluster")
        assert kept is not None
        assert kept["spec"] == theirs["spec"]
        binding = await world.get(kinds.TOPOLOGY_BINDINGS, "cluster")
        drift = condition_of(binding, "SchedulerTopologyDrift")
        assert (drift["status"], drift["reason"]) == ("True", "Drift")
        assert "is not owned by this binding" in drift["message"]

    run_world(story, KAI.options)


@pytest.mark.parametrize("name", ["1.36", "kai"])
def test_a_label_put_on_a_running_set_is_mirrored_onto_its_gangs(name: str) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 1}))
        await until_running(world, "train-0")
        await world.user.merge_patch(
            kinds.CLIQUESETS, Key("default", "train"), {"metadata": {"labels": {"team": "blue"}}}
        )
        await world.settle()
        mirrored = await world.gang("train-0")
        assert mirrored is not None
        assert mirrored["metadata"]["labels"]["team"] == "blue"
        assert await world.phase("train-0") == "Running"

    run_world(story, stage.options)


#: What a term of pod affinity may have in it that is empty and means something: all namespaces, all pods.
TERM: Manifest = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "cache"}}}
EVERYWHERE: Manifest = {**TERM, "namespaceSelector": {}}
EVERYBODY: Manifest = {**TERM, "labelSelector": {}}
NOBODY: Manifest = {"topologyKey": RACK}


def near(term: Manifest, image: str = "app") -> Manifest:
    """Two pods that would rather be where the pods of a term are."""
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    pod = make.pod_spec(containers=[{"name": "main", "image": image}], affinity=affinity)
    return make.cliqueset_manifest("train", [make.template("worker", 2, pod=pod)])


async def terms(world: World) -> list[Manifest]:
    """The term that the clique has, and those that its pods have."""
    specs = [each["spec"]["podSpec"] for each in await world.all(kinds.CLIQUES)]
    specs += [each["spec"] for each in await world.pods()]
    rule = "preferredDuringSchedulingIgnoredDuringExecution"
    found = [each["affinity"]["podAffinity"][rule] for each in specs]
    return [each[0]["podAffinityTerm"] for each in found]


EDITS: dict[str, tuple[Manifest, Manifest]] = {
    "it stays while something else is edited": (near(EVERYWHERE), near(EVERYWHERE, "app:2")),
    "it is added": (near(TERM), near(EVERYWHERE)),
    "it is taken away": (near(EVERYWHERE), near(TERM)),
    "it is emptied": (near(TERM), near(EVERYBODY)),
    "it is added where nothing was": (near(NOBODY), near(EVERYBODY)),
}


@pytest.mark.parametrize(("first", "then"), EDITS.values(), ids=EDITS)
def test_a_selector_that_is_empty_reaches_clique_and_pods_with_the_edit(
    first: Manifest, then: Manifest
) -> None:
    """An empty selector is not an absent one: it selects everything."""

    async def story(world: World) -> None:
        for manifest in (first, then):
            before = {uid_of(pod) for pod in await world.pods()}
            await world.apply(manifest)
            await world.settle(seconds=3600)
            (role,) = manifest["spec"]["template"]["cliques"]
            affinity = role["spec"]["podSpec"]["affinity"]["podAffinity"]
            ((asked,),) = affinity.values()
            assert await terms(world) == [asked["podAffinityTerm"]] * 3
            assert not before & {uid_of(pod) for pod in await world.pods()}
            assert await world.phase("train-0") == "Running"

    run_world(story)
