"""How one gang is kept, a look at a time: objects, then its pods listed, then what it says, then gates."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager

import pytest
from tests.controllers.steps import Steps, condition, run_steps

from grove.api import conditions, kinds, labels
from grove.api.config import load
from grove.controllers.apply import NameTaken
from grove.controllers.clique import CliqueReconciler
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.gang import GangReconciler
from grove.controllers.pacing import REMOVING_SECONDS
from grove.embedded.faults import Fault
from grove.errors import Conflict, Forbidden
from grove.meta import Key, Manifest, resource
from grove.plan.changes import Delete
from grove.plan.gang.state import WantedObject
from grove.runtime.outcome import DONE, After, Outcome
from grove.testing import make

GANG, CLIQUE = "train-0", "train-0-worker"
SET = make.cliqueset_manifest("train", {"worker": 2})
PODGROUPS = resource("scheduling.k8s.io", "v1alpha2", "PodGroup")


async def look(steps: Steps) -> Outcome:
    return await steps.look(GangReconciler, GANG)


async def opened(steps: Steps) -> int:
    """How many pods have no gate any more."""
    return sum(not gates for gates in (await steps.gates()).values())


async def told(steps: Steps, type_: str) -> tuple[str, str]:
    found = condition(await steps.get(kinds.GANGS, GANG), type_)
    return found.get("status", ""), found.get("reason", "")


async def listed(steps: Steps) -> list[str]:
    (group,) = (await steps.get(kinds.GANGS, GANG))["spec"]["podgroups"]
    return sorted(each["name"] for each in group["podReferences"])


async def bind(steps: Steps, pod: str) -> None:
    binding: Manifest = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": "node-0"}}
    await steps.world.cluster.client().create(kinds.PODS.path("default", pod, "binding"), binding)


async def being_removed(steps: Steps) -> AbstractContextManager[None]:
    """Within it, the set of the gang is about to delete it."""
    gang = await steps.get(kinds.GANGS, GANG)
    deletion = Delete(kinds.GANGS, Key("default", GANG), gang["metadata"]["uid"])
    return steps.deps.removal.removing(Key("default", "train"), [deletion])


# The order of writes ------------------------------------------------------------------------------------


def test_a_new_gang_is_handed_to_its_scheduler_before_anything_else_is_written() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(SET)
        await steps.look(CliqueSetReconciler, "train")
        steps.writes()
        await steps.rest(GangReconciler, GANG)
        first, *others = steps.writes()
        assert first == "apply podgroups"
        assert others == ["patch podgangs/status"]

    run_steps(story)


def test_gates_open_once_all_pods_are_listed_and_the_gang_says_that_they_exist() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        assert await opened(steps) == 0
        assert await look(steps) == DONE
        assert steps.writes() == ["patch podgangs", "patch podgangs/status", "patch pods", "patch pods"]
        assert await listed(steps) == await steps.names(kinds.PODS)
        assert await told(steps, conditions.INITIALIZED) == ("True", "PodGangPodsCreated")
        assert await opened(steps) == 2

    run_steps(story)


def test_a_gang_of_which_a_pod_is_missing_lists_nothing_and_opens_no_gate() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        first, _ = await steps.names(kinds.PODS)
        await steps.delete(kinds.PODS, first)
        await look(steps)
        assert await listed(steps) == []
        assert await opened(steps) == 0

    run_steps(story)


def test_when_everything_is_in_order_nothing_is_written() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.rest(GangReconciler, GANG)
        steps.writes()
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


# Writes that fail ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [f"/podgangs/{GANG}", f"/podgangs/{GANG}/status"])
def test_no_gate_opens_when_the_gang_could_not_be_written(path: str) -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        steps.forbid("PATCH", path)
        with pytest.raises(Forbidden):
            await look(steps)
        assert await opened(steps) == 0
        steps.transport.forbidden.clear()
        await look(steps)
        assert await opened(steps) == 2

    run_steps(story)


@pytest.mark.parametrize("subject", ["podgangs.*", "podgangs.*/status"])
def test_no_gate_opens_when_somebody_changed_the_gang_meanwhile(subject: str) -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        steps.world.cluster.faults.add(Fault("conflict", verb="patch", resource=subject, times=1))
        with pytest.raises(Conflict):
            await look(steps)
        assert await opened(steps) == 0

    run_steps(story)


def test_a_refused_object_keeps_pods_unlisted_and_gates_closed_and_the_gang_says_why() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(SET)
        await steps.look(CliqueSetReconciler, "train")
        await steps.watched()
        (wanted,) = await wanted_objects(steps)
        steps.forbid("PATCH", f"/podgroups/{wanted.manifest['metadata']['name']}")
        with pytest.raises(Forbidden):
            await look(steps)
        await steps.look(CliqueReconciler, CLIQUE)
        await asyncio.sleep(1)
        with pytest.raises(Forbidden):
            await look(steps)
        assert await listed(steps) == []
        assert await opened(steps) == 0
        assert (await told(steps, conditions.SCHEDULED))[0] == "False"
        assert "a policy" in condition(await steps.get(kinds.GANGS, GANG), conditions.SCHEDULED)["message"]

    run_steps(story)


async def wanted_objects(steps: Steps) -> Sequence[WantedObject]:
    """What the scheduler of the gang should be told."""
    await steps.watched()
    state = await steps.reconciler(GangReconciler).observe(Key("default", GANG))
    assert state is not None
    return state.wanted_objects


def test_an_object_of_somebody_else_under_our_name_is_not_touched_and_gates_stay_closed() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(SET)
        await steps.look(CliqueSetReconciler, "train")
        (wanted,) = await wanted_objects(steps)
        metadata = {"name": wanted.manifest["metadata"]["name"], "namespace": "default"}
        theirs = await steps.create(PODGROUPS, {**wanted.manifest, "metadata": metadata})
        with pytest.raises(NameTaken):
            await look(steps)
        await steps.look(CliqueReconciler, CLIQUE)
        with pytest.raises(NameTaken):
            await look(steps)
        there = await steps.get(PODGROUPS, metadata["name"])
        assert there["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
        assert await opened(steps) == 0

    run_steps(story)


def test_a_gate_that_is_refused_is_told_and_tried_again() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        first, _ = await steps.names(kinds.PODS)
        steps.forbid("PATCH", f"/pods/{first}")
        with pytest.raises(Forbidden):
            await look(steps)
        assert "GatesStayClosed" in await steps.events()
        steps.transport.forbidden.clear()
        await look(steps)
        assert await opened(steps) == 2

    run_steps(story)


# Gangs that go ------------------------------------------------------------------------------------------


def test_one_that_is_gone_needs_nothing() -> None:
    async def story(steps: Steps) -> None:
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_a_gang_that_its_set_is_deleting_is_looked_at_later() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        with await being_removed(steps):
            assert await look(steps) == After(REMOVING_SECONDS, "its set removes it")
        assert steps.writes() == []

    run_steps(story)


def test_no_gate_opens_when_its_set_begins_to_delete_it_during_the_look() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)

        removing = await being_removed(steps)

        async def deletes() -> None:
            removing.__enter__()

        steps.meanwhile("PATCH", f"/podgangs/{GANG}/status", deletes)
        await look(steps)
        assert await opened(steps) == 0

    run_steps(story)


def test_no_gate_opens_when_the_gang_is_gone_before_it_says_that_its_pods_exist() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        steps.meanwhile("PATCH", f"/podgangs/{GANG}/status", lambda: steps.delete(kinds.GANGS, GANG))
        await look(steps)
        assert await steps.names(kinds.GANGS) == []
        assert await opened(steps) == 0

    run_steps(story)


def test_while_gates_open_the_set_is_told_not_to_delete_the_gang() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        first, _ = await steps.names(kinds.PODS)
        during: list[set[Key]] = []

        async def asked() -> None:
            during.append(set(steps.deps.opening))

        steps.meanwhile("PATCH", f"/pods/{first}", asked)
        await look(steps)
        assert during == [{Key("default", GANG)}]
        assert steps.deps.opening == set()

    run_steps(story)


def test_no_gate_opens_for_a_gang_whose_set_is_gone() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.delete(kinds.CLIQUESETS, "train")
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_no_gate_opens_for_a_gang_that_only_the_cache_still_shows() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        for pod in await steps.names(kinds.PODS):
            steps.forbid("PATCH", f"/pods/{pod}")
        with pytest.raises(Forbidden):
            await look(steps)
        steps.transport.forbidden.clear()
        await steps.stop_watching()
        await steps.delete(kinds.GANGS, GANG)
        await look(steps)
        assert await opened(steps) == 0

    run_steps(story)


def test_an_object_is_not_made_again_for_a_gang_that_only_the_cache_still_shows() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        (name,) = await steps.names(PODGROUPS)
        await steps.delete(PODGROUPS, name)
        await steps.patch(PODGROUPS, name, {"metadata": {"finalizers": None}})
        await steps.stop_watching()
        await steps.delete(kinds.GANGS, GANG)
        assert await look(steps) == DONE
        assert await steps.names(PODGROUPS) == []

    run_steps(story)


def test_one_that_somebody_keeps_from_going_says_so_and_nothing_else_is_done_for_it() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.keep(kinds.GANGS, GANG)
        await steps.delete(kinds.GANGS, GANG)
        await steps.rest(GangReconciler, GANG)
        assert steps.writes() == ["patch podgangs/status"]
        assert "finalizer" in condition(await steps.get(kinds.GANGS, GANG), conditions.SCHEDULED)["message"]
        assert await opened(steps) == 0

    run_steps(story)


def test_of_one_that_goes_together_with_its_set_nothing_is_said() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.keep(kinds.CLIQUESETS, "train")
        await steps.keep(kinds.GANGS, GANG)
        await steps.delete(kinds.CLIQUESETS, "train")
        await steps.delete(kinds.GANGS, GANG)
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


# Gangs of others ----------------------------------------------------------------------------------------


def test_a_gang_that_somebody_else_made_gets_its_backend_and_nothing_more_in_the_same_look() -> None:
    async def story(steps: Steps) -> None:
        await steps.create(kinds.GANGS, make.gang_manifest(GANG, {CLIQUE: 1}))
        assert await look(steps) == DONE
        assert steps.writes() == ["patch podgangs"]
        marks = (await steps.get(kinds.GANGS, GANG))["metadata"]["labels"]
        assert marks[labels.SCHEDULER_BACKEND] == "default"

    run_steps(story)


def test_one_that_goes_is_left_to_whoever_made_it() -> None:
    async def story(steps: Steps) -> None:
        await steps.create(kinds.GANGS, make.gang_manifest(GANG, {CLIQUE: 1}))
        await steps.keep(kinds.GANGS, GANG)
        await steps.delete(kinds.GANGS, GANG)
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


EXTERNAL = load("""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  profiles: [{name: default-scheduler}, {name: kai-scheduler, external: true}]
""")


KAI = make.cliqueset_manifest("train", {"worker": 2}, annotations={labels.SCHEDULER_BACKEND: "kai"})


def test_of_a_gang_whose_backend_has_a_process_of_its_own_only_the_gates_are_opened() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(KAI)
        await steps.rest(GangReconciler, GANG)
        assert steps.writes() == [], "its pods are not listed yet"
        references = [{"namespace": "default", "name": name} for name in await steps.names(kinds.PODS)]
        group = {"name": CLIQUE, "minReplicas": 2, "podReferences": references}
        await steps.patch(kinds.GANGS, GANG, {"spec": {"podgroups": [group]}})
        whole = {"type": conditions.INITIALIZED, "status": "True", "reason": "PodGangPodsCreated"}
        whole |= {"message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        await steps.status(kinds.GANGS, GANG, {"conditions": [whole]})
        for each in await wanted_objects(steps):
            await steps.create(each.resource, each.manifest)
        await steps.rest(GangReconciler, GANG)
        assert steps.writes() == ["patch pods"] * 2

    run_steps(story, "kai", configuration=EXTERNAL)


def test_what_becomes_of_such_a_gang_when_it_goes_is_said_by_that_process() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(KAI)
        await steps.keep(kinds.GANGS, GANG)
        await steps.delete(kinds.GANGS, GANG)
        await steps.rest(GangReconciler, GANG)
        assert steps.writes() == []

    run_steps(story, "kai", configuration=EXTERNAL)


# Nodes given back, and restarts ---------------------------------------------------------------------------


def test_a_gang_that_holds_a_part_of_its_nodes_for_too_long_gives_them_back() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.rest(GangReconciler, GANG)
        first, second = await steps.names(kinds.PODS)
        await bind(steps, first)
        await asyncio.sleep(1)
        await look(steps)
        await asyncio.sleep(1)
        outcome = await look(steps)
        assert isinstance(outcome, After)
        assert await steps.names(kinds.PODS) == [first, second]
        await asyncio.sleep(outcome.seconds)
        await look(steps)
        assert await steps.names(kinds.PODS) == [second]
        assert "GaveBack" in await steps.events()

    run_steps(story)


def test_pods_that_could_not_be_given_up_are_tried_again() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.rest(GangReconciler, GANG)
        first, _ = await steps.names(kinds.PODS)
        await bind(steps, first)
        steps.forbid("DELETE", f"/pods/{first}")
        with pytest.raises(Forbidden):
            await steps.rest(GangReconciler, GANG)
        steps.transport.forbidden.clear()
        await steps.rest(GangReconciler, GANG)
        assert first not in await steps.names(kinds.PODS)

    run_steps(story)


def test_a_gang_that_lost_all_of_its_pods_is_restarted_under_another_revision() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.rest(GangReconciler, GANG)
        await steps.run_pods()
        await steps.rest(GangReconciler, GANG)
        before = await steps.names(PODGROUPS)
        for pod in await steps.names(kinds.PODS):
            await steps.world.user.delete(kinds.PODS, Key("default", pod), grace_seconds=0)
        await steps.rest(GangReconciler, GANG)
        found = await steps.get(kinds.GANGS, GANG)
        assert found["metadata"]["annotations"][labels.RESTARTS] == "1"
        assert await listed(steps) == []
        await steps.rest(GangReconciler, GANG)
        assert set(await steps.names(PODGROUPS)).isdisjoint(before)
        assert "Restarted" in await steps.events()

    run_steps(story)
