"""Pod templates are tried once for each version of them, and an outage decides nothing."""

import asyncio

import msgspec
import pytest
from tests.controllers.steps import Steps, run_steps

from grove.api import kinds
from grove.api.cliqueset import PodCliqueSet
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.memory.trials import AGAIN_SECONDS, Trials, Tried
from grove.embedded.faults import Fault
from grove.errors import GroveError
from grove.meta import Key, Manifest
from grove.testing import make

SET = Key("default", "train")
TOO_MUCH = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


def cliqueset(*roles: Manifest) -> Manifest:
    return make.cliqueset_manifest("train", list(roles) or [make.template("worker")])


def wrong(name: str) -> Manifest:
    containers = [{"name": "main", "image": "x", "resources": TOO_MUCH}]
    return make.template(name, pod={"containers": containers})


def trials(steps: Steps) -> Trials:
    return steps.reconciler(CliqueSetReconciler).trials


async def tried(steps: Steps) -> Tried:
    await steps.watched()
    found = steps.deps.cache.store(PodCliqueSet).get(SET)
    assert found is not None
    backend = steps.deps.scheduling.registry.default
    assert backend is not None
    return await trials(steps).tried(found, backend, steps.deps.scheduling.context(backend, found), None)


def asked(steps: Steps) -> int:
    """How many dry runs of pods there were."""
    return sum(each.dry_run and each.resource == "pods" for each in steps.world.cluster.requests)


def test_a_template_that_would_be_refused_is_named_by_its_field_and_a_good_one_is_not() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(cliqueset(make.template("leader"), wrong("worker")))
        (error,) = (await tried(steps)).errors
        assert error.field.startswith("spec.template.cliques[1].spec.podSpec.containers[0].resources")
        assert await steps.names(kinds.PODS) == []

    run_steps(story)


def test_each_role_is_tried_once_while_the_set_stays_as_it_is() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(cliqueset(make.template("leader"), wrong("worker")))
        assert await tried(steps) == await tried(steps)
        assert asked(steps) == 2

    run_steps(story)


def test_after_an_edit_only_the_templates_that_changed_are_tried() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(cliqueset(make.template("leader"), wrong("worker")))
        await tried(steps)
        await steps.world.apply(cliqueset(make.template("leader"), make.template("worker")))
        assert (await tried(steps)).errors == ()
        assert asked(steps) == 3

    run_steps(story)


def test_what_the_status_says_was_accepted_is_not_tried_again_by_another_process() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(cliqueset())
        await steps.rest(CliqueSetReconciler, "train")
        before = asked(steps)
        trials(steps).forget(SET)
        assert (await tried(steps)).errors == ()
        assert asked(steps) == before

    run_steps(story)


def test_another_priority_class_is_tried_once_and_not_again_by_another_process() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(cliqueset())
        await steps.rest(CliqueSetReconciler, "train")
        before = asked(steps)
        await steps.world.apply(
            make.cliqueset_manifest(
                "train", [make.template("worker")], template={"priorityClassName": "system-node-critical"}
            )
        )
        await steps.rest(CliqueSetReconciler, "train")
        assert asked(steps) == before + 1
        trials(steps).forget(SET)
        assert (await tried(steps)).errors == ()
        assert asked(steps) == before + 1

    run_steps(story)


def test_an_outage_is_raised_and_nothing_is_remembered_of_it() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(cliqueset(wrong("worker")))
        fault = steps.world.cluster.faults.add(Fault("error", verb="create", resource="pods"))
        with pytest.raises(GroveError):
            await tried(steps)
        fault.times = 0
        assert (await tried(steps)).errors

    run_steps(story)


def test_a_template_that_names_what_does_not_exist_yet_is_tried_again_soon() -> None:
    async def story(steps: Steps) -> None:
        urgent = make.template("worker", pod={"priorityClassName": "urgent"})
        await steps.world.apply(cliqueset(urgent))
        first = await tried(steps)
        assert first.errors
        assert first.again is not None
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5}
        await steps.world.apply({**priority, "metadata": {"name": "urgent"}})
        assert await tried(steps) == first
        await asyncio.sleep(AGAIN_SECONDS)
        assert await tried(steps) == Tried()

    run_steps(story)


def test_another_set_of_the_same_name_is_tried_by_itself() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(cliqueset())
        await tried(steps)
        found = steps.deps.cache.store(PodCliqueSet).get(SET)
        assert found is not None
        metadata = msgspec.structs.replace(found.metadata, uid="another")
        await steps.stop_watching()
        steps.deps.cache.store(PodCliqueSet).put(msgspec.structs.replace(found, metadata=metadata))
        await tried(steps)
        assert asked(steps) == 2

    run_steps(story)
