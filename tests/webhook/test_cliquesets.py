"""Sets are refused where they are written, by field, unless the operator would carry them out."""

import asyncio
import copy
from collections.abc import Callable

import msgspec
import pytest
from tests.scenarios.stories import rack_binding, until_running
from tests.webhook.asking import Told, Webhooks

from grove.admission import default
from grove.api import kinds, labels
from grove.api.config import Limits, load
from grove.embedded.faults import Fault
from grove.meta import Manifest
from grove.testing import make
from grove.testing.world import CONFIGURATION, World, WorldOptions, run_world
from grove.webhook.dry_runs import LIMIT_SECONDS, REMEMBERED_SECONDS

CLIQUES = "spec.template.cliques"
PODS = f"{CLIQUES}[0].spec.podSpec"
Edit = Callable[[Manifest], object]


def stored(**fields: object) -> Manifest:
    return make.cliqueset_manifest("train", [make.template("worker", 4)], **fields)  # type: ignore[arg-type]


def edited(manifest: Manifest, edit: Edit) -> Manifest:
    found = copy.deepcopy(manifest)
    edit(found)
    return found


def role(manifest: Manifest, index: int = 0) -> Manifest:
    found: Manifest = manifest["spec"]["template"]["cliques"][index]
    return found


def pods(manifest: Manifest) -> Manifest:
    found: Manifest = role(manifest)["spec"]["podSpec"]
    return found


def ask(new: Manifest, old: Manifest | None = None, options: WorldOptions | None = None) -> Told:
    """What a quiet cluster's webhook says."""
    found: list[Told] = []

    async def story(world: World) -> None:
        found.append(await Webhooks(world).validate(kinds.CLIQUESETS, new, old))

    run_world(story, options)
    return found[0]


def container(**fields: object) -> Edit:
    return lambda manifest: pods(manifest)["containers"][0].update(fields)


#: What people really write, and the whole sentence that they read.
BAD = {
    "imgae": (
        container(imgae="serve:1"),
        f"{PODS}.containers[0].imgae: unknown field; did you mean image?",
    ),
    "a bad quantity": (
        container(resources={"requests": {"cpu": "2 cores"}}),
        f"{PODS}.containers[0].resources.requests[cpu]: must be a quantity such as 2, 500m or 8Gi, not the text "
        "'2 cores'",
    ),
    "no image": (
        lambda manifest: pods(manifest)["containers"][0].pop("image"),
        f"{PODS}.containers[0].image: Required value",
    ),
    "an unknown priority class": (
        lambda manifest: manifest["spec"]["template"].update(priorityClassName="urgent"),
        "spec.template.priorityClassName: no PriorityClass with name urgent was found",
    ),
    "an unknown scheduler": (
        lambda manifest: pods(manifest).update(schedulerName="kai-schedulr"),
        f"{PODS}.schedulerName: 'kai-schedulr': scheduler backend is not enabled in Grove; enabled: default "
        "(default-scheduler)",
    ),
    "an unknown topology": (
        lambda manifest: manifest["spec"]["template"].update(
            topologyConstraint={"topologyName": "dc", "pack": {"required": "rack"}}
        ),
        'spec.template.topologyConstraint.topologyName: ClusterTopologyBinding "dc" not found',
    ),
    "a minimum above the replicas": (
        lambda manifest: role(manifest)["spec"].update(minAvailable=8),
        f"{CLIQUES}[0].spec.minAvailable: minAvailable must not be greater than replicas; got 8 with 4 replicas",
    ),
    "a name in capitals": (
        lambda manifest: role(manifest).update(name="Worker"),
        f"{CLIQUES}[0].name: 'Worker' must be a DNS label: lower-case letters, digits and '-', beginning and "
        "ending with a letter or digit",
    ),
    "names that are too long": (
        lambda manifest: role(manifest).update(name="a-worker-with-a-very-long-name-indeed-yes"),
        f"{CLIQUES}[0].name: combined resource name length 46 exceeds 45-character limit required for pod "
        "naming ('train' 5 + 'a-worker-with-a-very-long-name-indeed-yes' 41); shorten by 1",
    ),
    "startsAfter that names nobody": (
        lambda manifest: (
            manifest["spec"]["template"].update(cliqueStartupType="CliqueStartupTypeExplicit"),
            role(manifest)["spec"].update(startsAfter=["leader"]),
        ),
        f"{CLIQUES}[0].spec.startsAfter: ",
    ),
    "a termination delay of words": (
        lambda manifest: manifest["spec"]["template"].update(terminationDelay="4 hours"),
        "spec.template.terminationDelay: '4 hours' is not a duration",
    ),
    "ten thousand pods too many": (
        lambda manifest: manifest["spec"].update(replicas=5000),
        "spec.replicas: asks for 20000 pods (5000 replicas of 4 pods each); this operator allows 10000 pods in "
        "one set; lower it, split the set, or raise limits.podsPerSet in the operator's configuration",
    ),
    "a node of one's own": (
        lambda manifest: pods(manifest).update(nodeName="gpu-1"),
        f"{PODS}.nodeName: must not be set; the scheduler chooses the node",
    ),
    "containers that are no list": (
        lambda manifest: pods(manifest).update(containers={"name": "main"}),
        f"{PODS}.containers: must be a list, not an object",
    ),
}


@pytest.mark.parametrize(("edit", "sentence"), BAD.values(), ids=BAD)
def test_what_people_really_write_is_refused_with_a_sentence(edit: Edit, sentence: str) -> None:
    said = ask(edited(stored(), edit))
    assert not said.allowed
    assert said.code == 422
    assert sentence in said.message
    assert any(sentence in cause for cause in said.causes)


def test_a_good_set_passes_without_a_word() -> None:
    assert ask(stored()) == Told(True)


def test_all_errors_are_told_at_once() -> None:
    def edit(manifest: Manifest) -> None:
        role(manifest)["spec"]["minAvailable"] = 9
        manifest["spec"]["replicas"] = -1
        manifest["spec"]["template"]["terminationDelay"] = "soon"

    fields = [cause.partition(":")[0] for cause in ask(edited(stored(), edit)).causes]
    assert fields == ["spec.replicas", "spec.template.terminationDelay", f"{CLIQUES}[0].spec.minAvailable"]


def test_what_a_scheduler_loses_is_a_warning() -> None:
    bare = WorldOptions(features=frozenset())
    said = ask(stored(), None, bare)
    assert said.allowed
    assert [line for line in said.warnings if line.startswith("default: gang not expressible: ")]


def test_a_queue_that_does_not_exist_is_named() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        marks = {"kai.scheduler/queue": "nobodys", labels.SCHEDULER_BACKEND: "kai"}
        new = stored(labels={"kai.scheduler/queue": "nobodys"}, annotations=marks)
        said = await webhooks.validate(kinds.CLIQUESETS, new)
        assert said.allowed
        assert any("KAI has no queue 'nobodys'; create it" in line for line in said.warnings)

    run_world(story, WorldOptions(schedulers=("kai",)))


def test_a_topology_that_was_applied_a_moment_ago_is_waited_for() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        constraint = {"topologyName": "cluster", "pack": {"required": "rack"}}
        new = stored(template={"topologyConstraint": constraint})
        await world.apply(rack_binding())
        assert (await webhooks.validate(kinds.CLIQUESETS, new)).allowed

    run_world(story)


#: Fields that cannot be changed, and the way out.
FORBIDDEN: dict[str, tuple[Edit, str]] = {
    "the scheduler": (
        lambda each: pods(each).update(schedulerName="kai-scheduler"),
        f"{PODS}.schedulerName: field is immutable (it is blank, not 'kai-scheduler'); to move the set to "
        f"another scheduler, change its annotation {labels.SCHEDULER_BACKEND} instead",
    ),
    "the role's name": (
        lambda each: role(each)["spec"].update(roleName="other"),
        f"{CLIQUES}[0].spec.roleName: field is immutable (it is 'worker', not 'other'); delete the PodCliqueSet",
    ),
    "the startup type": (
        lambda each: each["spec"]["template"].update(cliqueStartupType="CliqueStartupTypeInOrder"),
        "spec.template.cliqueStartupType: field is immutable",
    ),
    "another role": (
        lambda each: each["spec"]["template"]["cliques"].append(make.template("extra")),
        f"{CLIQUES}: not allowed to change clique composition (added 'extra')",
    ),
    "a group": (
        lambda each: each["spec"]["template"].update(
            podCliqueScalingGroups=[make.scaling_group("g", ["worker"])]
        ),
        "spec.template.podCliqueScalingGroups: not allowed to add or remove PodCliqueScalingGroupConfigs",
    ),
}


@pytest.mark.parametrize(("edit", "sentence"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_cannot_be_changed_is_refused_with_the_way_out(edit: Edit, sentence: str) -> None:
    said = ask(edited(stored(), edit), stored())
    assert not said.allowed
    assert any(sentence in cause for cause in said.causes)


ALLOWED: dict[str, Edit] = {
    "the minimum": lambda each: role(each)["spec"].update(minAvailable=3),
    "replicas": lambda each: each["spec"].update(replicas=3),
    "the image": container(image="registry.example/serve:2"),
    "a label": lambda each: each["metadata"]["labels"].update(team="a"),
}


@pytest.mark.parametrize("edit", ALLOWED.values(), ids=ALLOWED)
def test_what_the_operator_carries_out_is_allowed(edit: Edit) -> None:
    assert ask(edited(stored(), edit), stored()).allowed


def became_invalid() -> Manifest:
    """A set whose scheduler was disabled since."""
    return stored(replicas=3, annotations={labels.SCHEDULER_BACKEND: "gone"})


LESS: dict[str, Edit] = {
    "a finalizer is removed": lambda each: each["metadata"].update(finalizers=[]),
    "it is scaled down": lambda each: each["spec"].update(replicas=1),
    "a role is scaled to zero": lambda each: role(each)["spec"].update(replicas=0),
    "it is scaled down, and defaults are filled in meanwhile": lambda each: (
        each["spec"].update(replicas=1),
        each["spec"]["template"].update(default(each)["spec"]["template"]),
        role(each)["spec"].pop("minAvailable"),
    ),
    "it is labelled": lambda each: each["metadata"]["labels"].update(team="a"),
    "it is being deleted": lambda each: each["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
}


@pytest.mark.parametrize("edit", LESS.values(), ids=LESS)
def test_a_set_that_has_become_invalid_can_still_be_made_less(edit: Edit) -> None:
    old = edited(became_invalid(), lambda each: each["metadata"].update(finalizers=["grove.io/x"]))
    assert not ask(old).allowed
    assert ask(edited(old, edit), old).allowed


def test_an_edit_that_only_an_api_server_tells_apart_is_tried_all_the_same() -> None:
    before = edited(stored(), lambda each: pods(each).update(hostNetwork=True))

    def wrong(each: Manifest) -> None:
        pods(each).update(hostNetwork=1)

    def wrong_and_more(each: Manifest) -> None:
        wrong(each)
        each["spec"]["replicas"] = 2

    for edit in (wrong, wrong_and_more):
        told = ask(edited(before, edit), before)
        assert not told.allowed
        assert told.message.startswith(f"{PODS}.hostNetwork: ")


def test_a_set_that_has_become_invalid_cannot_be_scaled_up_nor_made_worse() -> None:
    old = became_invalid()
    assert not ask(edited(old, lambda each: each["spec"].update(replicas=4)), old).allowed
    good = stored(template={"cliques": [make.template("worker", 4)]})
    role(good)["spec"]["minAvailable"] = 4
    said = ask(edited(good, lambda each: role(each)["spec"].update(replicas=2)), good)
    assert [cause.partition(":")[0] for cause in said.causes] == [f"{CLIQUES}[0].spec.minAvailable"]


def test_a_limit_that_was_lowered_lets_sets_shrink_step_by_step() -> None:
    small = WorldOptions(
        configuration=msgspec.structs.replace(load(CONFIGURATION), limits=Limits(pods_per_set=5))
    )
    old = stored(replicas=5)
    said = ask(edited(old, lambda each: each["spec"].update(replicas=3)), old, small)
    assert said.allowed
    assert any(line.startswith("not accepted, as before: spec.replicas: ") for line in said.warnings)


def test_kubectl_scale_does_not_get_round_the_limit() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        await world.apply(stored())
        await until_running(world, "train-0")

        def scale(replicas: int) -> Manifest:
            return {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": "train", "namespace": "default"},
                "spec": {"replicas": replicas},
            }

        async def scaled(replicas: int) -> Told:
            return await webhooks.validate(kinds.CLIQUESETS, scale(replicas), scale(1), "scale")

        assert (await scaled(2)).allowed
        refused = await scaled(5000)
        assert refused.message.startswith("spec.replicas: asks for 20000 pods")
        assert (await scaled(0)).allowed

    run_world(story)


def test_replicas_below_a_minimum_that_was_decided_by_default_are_refused() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        await world.apply(stored())
        await until_running(world, "train-0")
        old = await world.get(kinds.CLIQUESETS, "train")
        assert old is not None
        assert "minAvailable" not in role(old)["spec"]
        new = edited(old, lambda each: role(each)["spec"].update(replicas=2))
        said = await webhooks.validate(kinds.CLIQUESETS, new, old)
        assert said.message.startswith(f"{CLIQUES}[0].spec.replicas: 2 is below minAvailable, which is 4")

    run_world(story)


def test_an_outage_of_the_dry_run_decides_nothing() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        world.cluster.faults.add(Fault("error", verb="create", resource="pods"))
        said = await webhooks.validate(kinds.CLIQUESETS, edited(stored(), container(imgae="x")))
        assert said.allowed
        assert any("pod templates were not tried by a dry run" in line for line in said.warnings)
        assert LIMIT_SECONDS < 10

    run_world(story)


def dry_runs(world: World) -> int:
    return sum(1 for entry in world.cluster.requests if entry.dry_run and entry.resource == "pods")


def image(name: str) -> Manifest:
    return {"containers": [{"name": "main", "image": name}]}


def two_templates() -> list[Manifest]:
    return [make.template("a", pod=image("a:1")), make.template("b", pod=image("b:1"))]


def named(name: str, *roles: Manifest) -> Manifest:
    return make.cliqueset_manifest(name, roles or two_templates())


def test_templates_that_did_not_change_are_not_tried_again() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        two = named("train")
        await webhooks.validate(kinds.CLIQUESETS, two)
        assert dry_runs(world) == 2
        await webhooks.validate(kinds.CLIQUESETS, edited(two, container(image="x:2")), two)
        assert dry_runs(world) == 3
        await webhooks.validate(
            kinds.CLIQUESETS, edited(two, lambda each: each["spec"].update(replicas=2)), two
        )
        assert dry_runs(world) == 3

    run_world(story)


def test_a_template_that_was_accepted_is_not_tried_again_for_a_minute() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        await webhooks.validate(kinds.CLIQUESETS, named("one"))
        assert (await webhooks.validate(kinds.CLIQUESETS, named("two"))).allowed
        assert dry_runs(world) == 2
        await asyncio.sleep(REMEMBERED_SECONDS)  # virtual
        assert (await webhooks.validate(kinds.CLIQUESETS, named("three"))).allowed
        assert dry_runs(world) == 4

    run_world(story)


def test_roles_with_the_same_template_are_tried_once_and_each_is_told() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        roles = [make.template(name, pod=image("x:1")) for name in ("a", "b", "c")]
        for role in roles:
            role["spec"]["podSpec"]["containers"][0]["imgae"] = "x"
        said = await webhooks.validate(kinds.CLIQUESETS, named("train", *roles))
        assert dry_runs(world) == 1
        assert said.causes == tuple(
            f"{CLIQUES}[{index}].spec.podSpec.containers[0].imgae: unknown field; did you mean image?"
            for index in range(3)
        )

    run_world(story)


def test_a_misspelt_field_without_a_value_is_no_template_that_was_accepted() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        assert (await webhooks.validate(kinds.CLIQUESETS, stored())).allowed
        said = await webhooks.validate(kinds.CLIQUESETS, edited(stored(), container(imgae="")))
        assert said.message.startswith(f"{PODS}.containers[0].imgae: unknown field")

    run_world(story)


def test_sets_with_the_same_template_at_the_same_time_are_tried_once() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        wrong = edited(named("a-set"), container(imgae="x"))
        said = await asyncio.gather(*(webhooks.validate(kinds.CLIQUESETS, wrong) for _ in range(20)))
        assert dry_runs(world) == 2
        assert {each.message for each in said} == {
            f"{PODS}.containers[0].imgae: unknown field; did you mean image?"
        }

    run_world(story)


def test_what_was_refused_is_tried_again() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        urgent = edited(stored(), lambda each: each["spec"]["template"].update(priorityClassName="urgent"))
        assert not (await webhooks.validate(kinds.CLIQUESETS, urgent)).allowed
        await world.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "urgent"},
                "value": 1000,
            }
        )
        assert (await webhooks.validate(kinds.CLIQUESETS, urgent)).allowed

    run_world(story)


def test_a_request_that_is_given_up_takes_no_answer_from_others() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        first = asyncio.create_task(webhooks.validate(kinds.CLIQUESETS, stored()))
        second = asyncio.create_task(webhooks.validate(kinds.CLIQUESETS, stored()))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).allowed
        assert not (await second).warnings
        assert dry_runs(world) == 1

    run_world(story)
