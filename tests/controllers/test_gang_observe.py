"""What is read of a gang before anything is decided about it, and what is remembered of it."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.controllers.steps import Steps, run_steps
from tests.plan.gang.states import PlainBackend

from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.config import load
from grove.api.gang import PodGang
from grove.backends.base import Context, GangSnapshot, Lifecycle, Precondition
from grove.backends.registry import Registry
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.gang import GangReconciler
from grove.controllers.gang_observe import GangObserver
from grove.errors import NotEnabled, Waiting
from grove.meta import Key, Manifest, resource
from grove.plan.gang.standalone import Adoption
from grove.plan.gang.state import BaseGang, Duties, GangState, PartialMemory, StepBackTime
from grove.testing import make

GANG, CLIQUE = "train-0", "train-0-worker"
KEY = Key("default", GANG)
SET = make.cliqueset_manifest("train", {"worker": 2})
PODGROUPS = resource("scheduling.k8s.io", "v1alpha2", "PodGroup")


def observer(steps: Steps) -> GangObserver:
    return steps.reconciler(GangReconciler).observer


async def cached(steps: Steps, name: str = GANG) -> PodGang:
    await steps.watched()
    found = steps.deps.cache.store(PodGang).get(Key("default", name))
    assert found is not None
    return found


async def observe(steps: Steps, name: str = GANG) -> GangState:
    state = await observer(steps).observe(await cached(steps, name))
    assert state is not None
    return state


def marked(gang: PodGang, **marks: str) -> PodGang:
    """The gang with other labels, by the names of their constants; empty for one that it lacks."""
    told = {**gang.labels, **{getattr(labels, name): value for name, value in marks.items()}}
    return replace(
        gang, metadata=replace(gang.metadata, labels={key: each for key, each in told.items() if each})
    )


# The gang of a set --------------------------------------------------------------------------------------


def test_a_gang_of_a_set_is_seen_with_its_cliques_its_pods_and_its_set() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        state = await observe(steps)
        assert [each.name for each in state.cliques] == [CLIQUE]
        assert sorted(each.name for each in state.pods) == await steps.names(kinds.PODS)
        assert state.context.cliqueset is not None
        assert state.context.cliqueset.name == "train"
        assert state.backend is not None
        assert state.backend.name == state.asked_backend == "default"
        assert (state.duties, state.adoption, state.base) == (Duties(), None, None)
        assert state.context.revision == state.pods[0].annotations[labels.GANG_REVISION]
        assert state.now == steps.deps.clock.now()
        assert state.monotonic == steps.deps.clock.monotonic()

    run_steps(story)


def test_what_should_exist_is_seen_beside_what_does() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(SET)
        await steps.look(CliqueSetReconciler, "train")
        state = await observe(steps)
        assert [(each.resource, each.existing) for each in state.wanted_objects] == [(PODGROUPS, None)]
        assert state.owned == []
        await steps.look(GangReconciler, GANG)
        state = await observe(steps)
        (wanted,), (owned,) = state.wanted_objects, state.owned
        assert wanted.existing is owned.item
        assert owned.resource == PODGROUPS
        assert [owned.item.name] == await steps.names(PODGROUPS)

    run_steps(story)


def test_gates_and_nodes_of_its_pods_are_counted_for_the_backend() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        state = await observe(steps)
        assert (state.context.released, state.running) == (False, False)
        await steps.rest(GangReconciler, GANG)
        assert (await observe(steps)).context.released
        await steps.run_pods()
        state = await observe(steps)
        assert (state.context.bound, state.running) == ({CLIQUE: 2}, True)

    run_steps(story)


def test_pods_that_carry_its_labels_and_pods_of_an_earlier_clique_are_seen_apart() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        mine = {each.name for each in (await observe(steps)).pods}
        gang = await cached(steps)
        await steps.create(kinds.PODS, make.pod_manifest(CLIQUE, 7, gang=gang, name="stray"))
        earlier = make.clique(CLIQUE, uid="earlier")
        pod = make.pod_manifest(CLIQUE, 8, gang=gang, name="former", owner=(earlier, kinds.CLIQUES))
        await steps.create(kinds.PODS, pod)
        state = await observe(steps)
        assert {each.name for each in state.pods} == mine
        assert [each.name for each in state.stray_pods] == ["stray"]
        assert [each.name for each in state.predecessors] == ["former"]

    run_steps(story)


def test_the_backend_that_its_set_asks_for_now_may_be_another_than_its_own() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.patch(
            kinds.CLIQUESETS, "train", {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: "kai"}}}
        )
        state = await observe(steps)
        assert state.backend is not None
        assert (state.backend.name, state.asked_backend) == ("default", "kai")

    run_steps(story, "kai", configuration=BOTH)


# Which backend ------------------------------------------------------------------------------------------


def configuration(extra: str = "") -> str:
    return f"""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  profiles: [{{name: default-scheduler}}, {{name: kai-scheduler{extra}}}]
"""


BOTH, EXTERNAL = load(configuration()), load(configuration(", external: true"))


def test_nobody_acts_on_a_gang_of_a_set_before_it_has_the_label_of_its_backend() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        gang = await cached(steps)
        assert await observer(steps).observe(marked(gang, SCHEDULER_BACKEND="")) is None
        assert await observer(steps).observe(gang) is not None

    run_steps(story)


def test_of_a_gang_whose_backend_is_not_enabled_it_is_known_which_are() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        state = await observer(steps).observe(marked(await cached(steps), SCHEDULER_BACKEND="volcano"))
        assert state is not None
        assert state.backend is None
        failure = state.translated.failure
        assert isinstance(failure, NotEnabled)
        assert str(failure).endswith("enabled: default, kai")
        assert (state.wanted_objects, state.context.released, state.context.remarks) == ([], False, None)

    run_steps(story, "kai", configuration=BOTH)


@pytest.mark.parametrize(
    ("annotations", "scheduler", "adoption"),
    [
        ({}, "", Adoption("default")),
        ({labels.SCHEDULER_BACKEND: "kai-scheduler"}, "", Adoption("kai", external=True)),
        ({}, "kai-scheduler", Adoption("kai", external=True)),
        ({labels.SCHEDULER_BACKEND: "default"}, "kai-scheduler", Adoption("default")),
        ({labels.SCHEDULER_BACKEND: "unheard-of"}, "", Adoption("unheard-of")),
    ],
)
def test_a_gang_that_somebody_else_made_gets_the_backend_that_it_or_its_pods_ask_for(
    annotations: dict[str, str], scheduler: str, adoption: Adoption
) -> None:
    async def story(steps: Steps) -> None:
        await steps.create(kinds.GANGS, make.gang_manifest(GANG, {CLIQUE: 1}, annotations=annotations))
        if scheduler:
            spec: Manifest = {"schedulerName": scheduler}
            pod = make.pod_manifest(CLIQUE, 0, gang=await cached(steps), spec=spec)
            await steps.create(kinds.PODS, pod)
        state = await observe(steps)
        assert state.adoption == adoption
        assert (state.backend, state.wanted_objects) == (None, ())

    run_steps(story, "kai", configuration=EXTERNAL)


def test_one_that_asks_for_what_cannot_be_a_name_gets_none_and_is_told() -> None:
    async def story(steps: Steps) -> None:
        asked = {labels.SCHEDULER_BACKEND: "no label!"}
        await steps.create(kinds.GANGS, make.gang_manifest(GANG, {CLIQUE: 1}, annotations=asked))
        state = await observe(steps)
        assert (state.adoption, state.backend) == (None, None)
        assert "no label!" in str(state.translated.failure)

    run_steps(story)


def test_the_process_of_one_backend_gives_no_gang_a_backend_and_opens_no_gates() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.create(kinds.GANGS, make.gang_manifest("guest", {CLIQUE: 1}))
        steps.deps.scheduling.only = "default"
        assert await observer(steps).observe(await cached(steps, "guest")) is None
        assert (await observe(steps)).duties == Duties(objects=False, pods=False)
        mark = {"metadata": {"annotations": {labels.EXTERNAL_BACKEND: "true"}}}
        await steps.patch(kinds.GANGS, GANG, mark)
        assert (await observe(steps)).duties == Duties(objects=True, pods=False)

    run_steps(story)


def test_of_a_gang_whose_status_another_process_writes_nothing_is_read_that_only_a_status_needs() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        await steps.create(kinds.PODS, make.pod_manifest(CLIQUE, 7, gang=await cached(steps), name="stray"))
        await steps.patch(kinds.GANGS, GANG, {"metadata": {"annotations": {labels.EXTERNAL_BACKEND: "true"}}})
        state = await observe(steps)
        assert state.duties == Duties(objects=False)
        assert (state.stray_pods, state.predecessors, state.asked_backend) == ((), (), "")

    run_steps(story)


# Standalone gangs ---------------------------------------------------------------------------------------


def test_a_gang_of_somebody_else_belongs_to_no_set_whatever_its_labels_say() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        marks = {labels.SCHEDULER_BACKEND: "default", labels.PART_OF: "train", labels.BASE_POD_GANG: GANG}
        await steps.create(kinds.GANGS, make.gang_manifest("guest", {CLIQUE: 1}, labels=marks))
        guest = await cached(steps, "guest")
        await steps.create(kinds.PODS, make.pod_manifest(CLIQUE, 7, gang=guest, name="p", gates=["x"]))
        state = await observe(steps, "guest")
        assert [each.name for each in state.pods] == ["p"]
        assert (state.context.cliqueset, state.context.revision, state.base) == (None, "", None)
        assert (state.cliques, state.context.ungrouped, state.asked_backend) == ([], {}, "")
        assert (state.stray_pods, state.predecessors) == ((), ())

    run_steps(story)


async def guest(steps: Steps, **annotations: str) -> None:
    """A gang of somebody else with one pod, which lacks its gate."""
    marks = {labels.SCHEDULER_BACKEND: "default"}
    manifest = make.gang_manifest("guest", {CLIQUE: 1}, labels=marks, annotations=annotations)
    await steps.create(kinds.GANGS, manifest)
    await steps.create(kinds.PODS, make.pod_manifest(CLIQUE, 0, gang=await cached(steps, "guest"), name="p"))


def test_what_its_pods_lack_is_found() -> None:
    async def story(steps: Steps) -> None:
        await guest(steps)
        problems = [text for each in (await observe(steps, "guest")).preparations for text in each.problems]
        assert any("schedulingGates" in each for each in problems)

    run_steps(story)


def test_what_they_lack_is_not_looked_for_by_who_does_not_write_its_objects() -> None:
    async def story(steps: Steps) -> None:
        await guest(steps, **{labels.EXTERNAL_BACKEND: "true"})
        assert (await observe(steps, "guest")).preparations == ()

    run_steps(story)


class Lacking(PlainBackend):
    """Lacks something in the cluster, and remembers which objects it was shown."""

    def __init__(self) -> None:
        self.shown: list[list[str]] = []

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        return (Precondition("scheduler", "install the scheduler"),)

    def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
        self.shown.append([each["metadata"]["name"] for each in snapshot.objects])
        return Lifecycle()


def test_nothing_is_prepared_for_a_backend_that_lacks_something() -> None:
    async def story(steps: Steps) -> None:
        await guest(steps)
        steps.deps.scheduling.registry = Registry([Lacking()], "plain")
        gang = marked(await cached(steps, "guest"), SCHEDULER_BACKEND="plain")
        state = await observer(steps).observe(gang)
        assert state is not None
        assert isinstance(state.translated.failure, Waiting)
        assert state.preparations == ()

    run_steps(story)


def test_what_a_backend_lacks_is_judged_by_the_process_that_writes_its_objects() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        mark = {"metadata": {"annotations": {labels.EXTERNAL_BACKEND: "true"}}}
        await steps.patch(kinds.GANGS, GANG, mark)
        steps.deps.scheduling.registry = Registry([Lacking()], "plain")
        gang = marked(await cached(steps), SCHEDULER_BACKEND="plain")
        state = await observer(steps).observe(gang)
        assert state is not None
        assert state.translated.failure is None
        assert len(state.wanted_objects) == 1

    run_steps(story)


def test_an_object_that_is_being_deleted_is_not_shown_to_the_backend() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        (name,) = await steps.names(PODGROUPS)
        backend = Lacking()
        steps.deps.scheduling.registry = Registry([backend], "plain")
        for shown in ([name], []):
            state = await observer(steps).observe(marked(await cached(steps), SCHEDULER_BACKEND="plain"))
            assert state is not None
            assert [each.item.name for each in state.owned] == [name]
            assert backend.shown.pop() == shown
            await steps.keep(PODGROUPS, name)
            await steps.delete(PODGROUPS, name)

    run_steps(story)


# The base gang ------------------------------------------------------------------------------------------

GROUPED = make.cliqueset_manifest(
    "train",
    {"leader": 1, "worker": 1},
    groups=[make.scaling_group("decode", ["worker"], replicas=2)],
)
SCALED, SCALED_CLIQUE = "train-0-decode-0", "train-0-decode-1-worker"


async def bind_base(steps: Steps) -> None:
    for each in await steps.world.pods():
        metadata = each["metadata"]
        if metadata["labels"][labels.POD_GANG] == GANG:
            name = metadata["name"]
            await steps.patch(kinds.PODS, name, {"spec": {"schedulingGates": None}})
            binding: Manifest = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-0"}}
            await steps.world.cluster.client().create(kinds.PODS.path("default", name, "binding"), binding)


def test_a_scaled_gang_with_closed_gates_waits_until_the_pods_of_its_base_are_placed() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(GROUPED)
        assert (await observe(steps)).base is None
        assert (await observe(steps, SCALED)).base == BaseGang(GANG, placed=False)
        await bind_base(steps)
        assert (await observe(steps, SCALED)).base == BaseGang(GANG, placed=True)

    run_steps(story)


def test_the_label_that_somebody_took_from_the_gang_is_found_on_its_cliques() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(GROUPED)
        state = await observer(steps).observe(marked(await cached(steps, SCALED), BASE_POD_GANG=""))
        assert state is not None
        assert state.base == BaseGang(GANG, placed=False)

    run_steps(story)


def test_a_scaled_gang_whose_gates_are_open_waits_for_nothing() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(GROUPED)
        await steps.run_pods()
        assert (await observe(steps, SCALED)).base is None

    run_steps(story)


def test_a_base_that_is_missing_or_going_is_not_placed() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(GROUPED)
        await bind_base(steps)
        await steps.keep(kinds.GANGS, GANG)
        await steps.delete(kinds.GANGS, GANG)
        assert (await observe(steps, SCALED)).base == BaseGang(GANG, placed=False)
        await steps.patch(kinds.GANGS, GANG, {"metadata": {"finalizers": None}})
        assert (await observe(steps, SCALED)).base == BaseGang(GANG, placed=False)

    run_steps(story)


def test_a_gang_of_another_set_under_the_name_of_the_base_is_not_placed_for_it() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(GROUPED)
        await bind_base(steps)
        store, scaled = steps.deps.cache.store(PodGang), await cached(steps, SCALED)
        base = store.get(KEY)
        assert base is not None
        (owner,) = base.metadata.owner_references
        earlier = (replace(owner, uid="of an earlier set"),)
        placed = BaseGang(GANG, placed=True)
        assert (await observe(steps, SCALED)).base == placed
        store.put(replace(base, metadata=replace(base.metadata, owner_references=())))
        state = await observer(steps).observe(scaled)
        assert state is not None
        assert state.base == placed, "it is given its owner back in a moment"
        store.put(replace(base, metadata=replace(base.metadata, owner_references=earlier)))
        for group in base.spec.podgroups:
            clique = steps.deps.cache.store(PodClique).get(Key("default", group.name))
            assert clique is not None
            theirs = replace(clique, metadata=replace(clique.metadata, owner_references=earlier))
            steps.deps.cache.store(PodClique).put(theirs)
        state = await observer(steps).observe(scaled)
        assert state is not None
        assert state.base == BaseGang(GANG, placed=False)

    run_steps(story)


# Other gangs, and what is remembered --------------------------------------------------------------------


def test_other_gangs_of_its_backend_that_are_not_placed_are_seen_with_their_pods() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods({**SET, "spec": {**SET["spec"], "replicas": 3}})
        placed = {"type": conditions.SCHEDULED, "status": "True", "reason": "Scheduled", "message": ""}
        placed["lastTransitionTime"] = "2030-01-01T00:00:00Z"
        await steps.status(kinds.GANGS, "train-2", {"conditions": [placed]})
        (other,) = (await observe(steps)).others
        assert (other.gang.name, len(other.pods)) == ("train-1", 2)
        moved = marked(await cached(steps), SCHEDULER_BACKEND="another")
        state = await observer(steps).observe(moved)
        assert state is not None
        assert list(state.others) == []

    run_steps(story)


def test_what_is_remembered_of_a_gang_is_shown_until_it_is_forgotten_or_empty() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        memory = PartialMemory(holding="one", since=3.0)
        assert (await observe(steps)).partial == PartialMemory()
        observer(steps).remember(KEY, memory)
        assert (await observe(steps)).partial == memory
        observer(steps).remember(KEY, PartialMemory())
        assert ((await observe(steps)).partial, observer(steps).partial) == (PartialMemory(), {})
        observer(steps).remember(KEY, memory)
        observer(steps).forget(KEY)
        assert (await observe(steps)).partial == PartialMemory()

    run_steps(story)


def test_a_preempted_gang_has_two_times_to_step_back_until_it_is_forgotten() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        assert (await observe(steps)).step_back == StepBackTime()
        pod, *_ = await steps.names(kinds.PODS)
        preempted = {"type": conditions.DISRUPTION_TARGET, "status": "True"}
        preempted |= {"reason": "PreemptionByScheduler", "message": ""}
        await steps.status(kinds.PODS, pod, {"conditions": [preempted]})
        found = (await observe(steps)).step_back
        assert 0 < found.least < found.most
        observer(steps).forget(KEY)
        assert (await observe(steps)).step_back == StepBackTime()
        assert steps.deps.disruptions.take(KEY) == []

    run_steps(story)
