"""What a set may not say: refused by the API server or by a condition, always with the field named."""

import pytest
from tests.scenarios.stories import events_about, refusal, set_condition, until_running

from grove.api import kinds
from grove.api.cliqueset import EXPLICIT
from grove.errors import BadRequest, Invalid
from grove.meta import Manifest
from grove.testing import make
from grove.testing.world import World, run_world

ROLE = ("spec", "template", "cliques", 0)


def changed(*path: str | int, to: object) -> Manifest:
    """A good set in which one field is something else; None takes it away."""
    manifest = make.cliqueset_manifest("train", {"worker": 2})
    *steps, last = path
    node = manifest
    for step in steps:
        node = node[step]  # type: ignore[index]
    if to is None:
        node.pop(last)  # type: ignore[arg-type]
    else:
        node[last] = to  # type: ignore[index]
    return manifest


def twice(name: str) -> Manifest:
    return make.cliqueset_manifest("train", [make.template(name), make.template(name)])


def fresh(manifest: Manifest) -> Manifest:
    """As a user writes it: without what only a server stamps."""
    stamped = ("uid", "generation", "creationTimestamp")
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in stamped}
    return {**manifest, "metadata": metadata}


#: What the schema refuses, and what the refusal must name.
REFUSED = {
    "an unknown field": (changed("spec", "replicaz", to=3), 'unknown field "spec.replicaz"'),
    "an unknown field of a role": (
        changed(*ROLE, "spec", "minAvailabel", to=1),
        'unknown field "spec.template.cliques[0].spec.minAvailabel"',
    ),
    "negative replicas": (changed("spec", "replicas", to=-1), "spec.replicas"),
    "negative replicas of a role": (
        changed(*ROLE, "spec", "replicas", to=-1),
        "spec.template.cliques[0].spec.replicas",
    ),
    "replicas that are no number": (changed("spec", "replicas", to="three"), "spec.replicas"),
    "no roles": (changed("spec", "template", "cliques", to=[]), "spec.template.cliques"),
    "no template": (changed("spec", "template", to=None), "spec.template: Required"),
    "two roles of one name": (twice("worker"), "spec.template.cliques[1]: Duplicate value"),
    "a minimum above the replicas": (
        changed(*ROLE, "spec", "minAvailable", to=5),
        "spec.template.cliques[0].spec.minAvailable",
    ),
    "a minimum of none": (
        changed(*ROLE, "spec", "minAvailable", to=0),
        "spec.template.cliques[0].spec.minAvailable",
    ),
    "a role's name that is no DNS label": (
        make.cliqueset_manifest("train", {"Wor_ker": 1}),
        "spec.template.cliques[0].name",
    ),
    "a set's name that is no DNS label": (make.cliqueset_manifest("tr.ain", {"worker": 1}), "metadata.name"),
    "a role without a pod spec": (
        changed(*ROLE, "spec", "podSpec", to=None),
        "spec.template.cliques[0].spec.podSpec",
    ),
    "a role without containers": (
        changed(*ROLE, "spec", "podSpec", "containers", to=[]),
        "spec.template.cliques[0].spec.podSpec.containers",
    ),
    "an unknown startup order": (
        changed("spec", "template", "cliqueStartupType", to="Whatever"),
        "spec.template.cliqueStartupType",
    ),
}


@pytest.mark.parametrize(("manifest", "named"), REFUSED.values(), ids=REFUSED)
def test_the_api_server_refuses_by_field(manifest: Manifest, named: str) -> None:
    async def story(world: World) -> None:
        with pytest.raises((Invalid, BadRequest)) as refused:
            await world.user.create(kinds.CLIQUESETS, fresh(manifest), strict=True)
        assert named in str(refused.value)
        assert await world.all(kinds.CLIQUESETS) == []

    run_world(story, operator=False)


@pytest.mark.parametrize(
    ("cliqueset", "role"), [("s" * 40, "worker"), ("train", "w" * 41)], ids=["set", "role"]
)
def test_names_that_would_make_pod_names_too_long_are_refused_with_the_budget(
    cliqueset: str, role: str
) -> None:
    async def story(world: World) -> None:
        with pytest.raises(Invalid) as refused:
            await world.user.create(
                kinds.CLIQUESETS, fresh(make.cliqueset_manifest(cliqueset, {role: 1})), strict=True
            )
        assert "spec.template.cliques" in str(refused.value)
        assert "45 characters together" in str(refused.value)

    run_world(story, operator=False)


@pytest.mark.parametrize(
    ("cliqueset", "role"), [("s" * 39, "worker"), ("train", "w" * 40)], ids=["set", "role"]
)
def test_the_longest_names_that_are_accepted_run(cliqueset: str, role: str) -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest(cliqueset, {role: 2}, replicas=2))
        await until_running(world, f"{cliqueset}-1")
        assert max(len(pod["metadata"]["name"]) for pod in await world.pods()) <= 63
        assert max(len(pod["spec"]["hostname"]) for pod in await world.pods()) <= 63

    run_world(story)


# What is stored and refused by a condition --------------------------------------------------------


def circle() -> Manifest:
    """Roles that wait for one another."""
    roles = [make.template(name) for name in "abc"]
    for role, after in zip(roles, "bca", strict=True):
        role["spec"]["startsAfter"] = [after]
    return make.cliqueset_manifest("train", roles, template={"cliqueStartupType": EXPLICIT})


INVALID = {
    "a pod bound by its author": (
        changed(*ROLE, "spec", "podSpec", "nodeName", to="node-0"),
        "spec.podSpec.nodeName",
    ),
    "two roles of one role name": (
        make.cliqueset_manifest(
            "train", [make.template("a"), {**make.template("b"), "spec": make.template("a")["spec"]}]
        ),
        "roleName",
    ),
    "roles that wait for one another": (
        circle(),
        "spec.template.cliques[0].spec.startsAfter: clique must not have circular dependencies: a -> b -> c -> a",
    ),
}


@pytest.mark.parametrize(("manifest", "field"), INVALID.values(), ids=INVALID)
def test_what_the_operator_refuses_is_told_by_field_and_nothing_is_created(
    manifest: Manifest, field: str
) -> None:
    async def story(world: World) -> None:
        await world.apply(manifest)
        accepted = await refusal(world, "train")
        assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
        assert field in accepted["message"]
        await world.settle()
        for resource in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES, kinds.PODS, kinds.SCALING_GROUPS):
            assert await world.all(resource) == []
        (told,) = await events_about(world, "PodCliqueSet", "train")
        assert (told["type"], told["reason"], told["count"]) == ("Warning", "Refused", 1)

    run_world(story)


def test_an_autoscaler_that_could_never_measure_anything_is_told_in_the_condition_of_an_accepted_set() -> (
    None
):
    async def story(world: World) -> None:
        await world.apply(changed(*ROLE, "spec", "autoScalingConfig", to={"maxReplicas": 5}))
        await until_running(world, "train-0")
        accepted = await set_condition(world, "train", "Accepted")
        assert accepted["status"] == "True"
        assert "spec.template.cliques[0].spec.autoScalingConfig" in accepted["message"]
        assert "requests none" in accepted["message"]

    run_world(story)


@pytest.mark.parametrize("left_out", ["replicas", "roleName"])
def test_what_a_role_may_leave_out_is_filled_in(left_out: str) -> None:
    async def story(world: World) -> None:
        await world.apply(changed(*ROLE, "spec", left_out, to=None))
        await until_running(world, "train-0")
        gang = await world.gang("train-0")
        assert gang is not None
        assert gang["spec"]["podgroups"][0]["minReplicas"] == len(await world.pods()) > 0

    run_world(story)
