"""`grove upgrade plan` tells beforehand what the operator will write, and which pods will restart for what."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.adoption.go_sets import (
    PRIORITY_CLASSES,
    SETS,
    cliqueset,
    create,
    group,
    install,
    on_scheduler,
    role,
)
from tests.adoption.go_shapes import VOLCANO_PODGROUPS, GoSet
from tests.adoption.taking_over import CLUSTERS, CONFIGURATION, by_name, identities, take_over
from tests.cli.conftest import Grove, grove
from tests.cli.processes import started
from tests.scenarios.stories import STAGES, condition_of

from grove.api import kinds
from grove.api.config import OperatorConfiguration, load
from grove.cli.rehearsing import rehearse
from grove.kube.client import Client
from grove.kube.config import load as connection
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest
from grove.meta import resource as served
from grove.plan.children import registry
from grove.plan.rehearsal import SetRehearsal, Verb
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import World, configuration_for, run_world

__all__ = ["grove"]
EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "prefill-decode.yaml"
NATIVE_PODGROUPS: Final = served("scheduling.k8s.io", "v1alpha2", "PodGroup")
WATCHED = (kinds.CLIQUESETS, kinds.CLIQUES, kinds.GANGS, kinds.SCALING_GROUPS, kinds.SERVICES, kinds.PODS)


async def rehearsed(
    world: World, configuration: OperatorConfiguration = CONFIGURATION
) -> dict[str, SetRehearsal]:
    found = await rehearse(world.user, configuration, clock=virtual_clock())
    return {each.key.name: each for each in found}


def test_of_sets_as_the_go_operator_left_them_no_pod_would_restart() -> None:
    async def story(world: World) -> None:
        await install(world, *SETS.values())
        await world.settle()
        writes = world.writes(everybody=True)
        found = await rehearsed(world)
        assert world.writes(everybody=True) == writes
        assert set(found) == set(SETS)
        assert {name: each.ends for name, each in found.items()} == dict.fromkeys(SETS, ())
        assert {name: each.refused for name, each in found.items()} == dict.fromkeys(SETS, ())
        assert sum(each.pods for each in found.values()) == len(await world.all(kinds.PODS))

    take_over(story)


@pytest.mark.parametrize("name", SETS)
def test_what_it_says_is_what_the_operator_then_writes(name: str) -> None:
    async def story(world: World) -> None:
        await install(world, SETS[name])
        await world.settle()
        found = (await rehearsed(world))[name]
        before = {resource: await by_name(world, resource) for resource in WATCHED}
        await world.start_operator()
        await world.settle()
        told = {(each.kind, each.name) for each in found.changes if each.verb is Verb.WRITE}
        for resource in WATCHED:
            for child, after in (await by_name(world, resource)).items():
                if child not in before[resource]:
                    continue
                wrote = _without_status(after) != _without_status(before[resource][child])
                assert wrote == ((resource.kind, child) in told), (resource.kind, child)
        assert (await rehearsed(world))[name].changes == ()

    take_over(story)


@pytest.mark.parametrize("scheduler", ["", "volcano"])
def test_it_lists_all_that_the_operator_then_creates(scheduler: str) -> None:
    """Also what follows from what would be created: a group's cliques, a gang's scheduler objects."""
    example = yaml.safe_load(EXAMPLE.read_text())
    if scheduler:
        for role in example["spec"]["template"]["cliques"]:
            role["spec"]["podSpec"]["schedulerName"] = scheduler

    async def story(world: World) -> None:
        await world.apply(example)
        await world.settle()
        await world.stop_operator()
        await world.scale("llm", 2)
        kinds_of_children = [
            each.resource for each in registry.KINDS if each.resource not in registry.OPTIONAL
        ]
        watched = (*kinds_of_children, VOLCANO_PODGROUPS if scheduler else NATIVE_PODGROUPS)
        before = {(of.kind, name) for of in watched for name in await by_name(world, of)}
        found = (await rehearsed(world, world.options.configuration))["llm"]
        await world.start_operator()
        await world.settle()
        after = {(of.kind, name) for of in watched for name in await by_name(world, of)}
        told = {(each.kind, each.name) for each in found.changes if each.verb is Verb.CREATE}
        known = {each for each in told if "<revision>" not in each[1]}
        assert len(told) == len([each for each in found.changes if each.verb is Verb.CREATE])
        assert known == {each for each in after - before if each[0] != "PodGroup"}
        # Their names depend on the UIDs of their gangs.
        wanted = sorted(name.rpartition("-")[0] for kind, name in after - before if kind == "PodGroup")
        assert sorted(name.removesuffix("-<revision>") for _, name in told - known) == wanted != []
        assert (await rehearsed(world, world.options.configuration))["llm"].changes == ()

    run_world(story, replace(STAGES[scheduler or "1.36"].options, nodes=8))


def _without_status(manifest: Manifest) -> Manifest:
    """What a plan speaks of; which pods a gang lists is written by the gang, once the set is planned."""
    metadata = {
        key: value
        for key, value in manifest["metadata"].items()
        if key not in ("resourceVersion", "managedFields", "generation")
    }
    spec = dict(manifest.get("spec") or {})
    if "podgroups" in spec:
        spec["podgroups"] = [{**each, "podReferences": []} for each in spec["podgroups"]]
    return {"metadata": metadata, "spec": spec}


async def edit(world: World, name: str, change: Any) -> None:
    """Edit the template of a set while no operator runs."""
    found = await world.get(kinds.CLIQUESETS, name) or {}
    template = found["spec"]["template"]
    change(template)
    await world.user.merge_patch(kinds.CLIQUESETS, Key("default", name), {"spec": {"template": template}})


def _image(template: Manifest) -> None:
    template["cliques"][1]["spec"]["podSpec"]["containers"][0]["image"] = "registry.example.com/app:2"


def _variable(template: Manifest) -> None:
    template["cliques"][1]["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "B", "value": "2"}]


def _label(template: Manifest) -> None:
    template["cliques"][1]["labels"] = {"tier": "gold"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_image, "spec.podSpec.containers[main].image"),
        (_variable, "spec.podSpec.containers[main].env"),
        (_label, "metadata.labels[tier]"),
    ],
    ids=["image", "variable", "label"],
)
def test_an_edit_that_no_operator_saw_yet_names_its_pods_and_the_field(change: Any, field: str) -> None:
    async def story(world: World) -> None:
        await install(world, SETS["plain"])
        await edit(world, "plain", change)
        found = (await rehearsed(world))["plain"]
        workers = {
            name
            for name, pod in (await by_name(world, kinds.PODS)).items()
            if pod["metadata"]["labels"]["grove.io/podclique"] == "plain-0-worker"
        }
        assert {each.name for each in found.restarts} == workers
        assert {each.reason for each in found.restarts} == {field}

    take_over(story)


def test_with_on_delete_an_edit_restarts_nothing() -> None:
    async def story(world: World) -> None:
        await install(world, SETS["manual"])
        await edit(world, "manual", lambda template: template["cliques"][0].update(labels={"tier": "gold"}))
        found = (await rehearsed(world))["manual"]
        assert found.ends == ()

    take_over(story)


def test_pods_that_an_update_of_the_go_operator_has_not_reached_would_restart() -> None:
    async def story(world: World) -> None:
        await install(world, SETS["plain"])
        behind = min(await by_name(world, kinds.PODS))
        marks = {"metadata": {"labels": {"grove.io/pod-template-hash": "older"}}}
        await world.user.merge_patch(kinds.PODS, Key("default", behind), marks)
        found = (await rehearsed(world))["plain"]
        assert [each.name for each in found.restarts] == [behind]
        assert found.restarts[0].reason.startswith("metadata.labels[grove.io/pod-template-hash]")

    take_over(story)


def test_pods_of_a_replica_that_is_scaled_away_would_end() -> None:
    async def story(world: World) -> None:
        await install(world, SETS["several"])
        await world.scale("several", 2)
        found = (await rehearsed(world))["several"]
        gone = {name for name in await identities(world) if name.startswith("several-2-")}
        assert {each.name for each in found.restarts} == gone
        assert all("the set has no such PodClique" in each.reason for each in found.restarts)

    take_over(story)


def test_failed_pods_are_replaced_which_is_no_restart() -> None:
    async def story(world: World) -> None:
        await install(world, SETS["plain"])
        failed = min(await by_name(world, kinds.PODS))
        await world.user.merge_patch(
            kinds.PODS, Key("default", failed), {"status": {"phase": "Failed"}}, subresource="status"
        )
        found = (await rehearsed(world))["plain"]
        assert found.restarts == []
        assert [(each.name, each.reason) for each in found.ends] == [
            (failed, "status.phase: failed pods are replaced")
        ]

    take_over(story)


def test_a_set_that_would_be_refused_says_why_and_keeps_its_pods() -> None:
    async def story(world: World) -> None:
        await install(world, on_scheduler("volcano"))
        found = (await rehearsed(world, load(configuration_for())))["train"]
        assert "scheduler backend is not enabled in Grove" in found.refused[0]
        assert (found.changes, found.ends) == ((), ())

    take_over(story, CLUSTERS["volcano"][1])


def _priority(template: Manifest) -> None:
    template["priorityClassName"] = "nobody-made-it"


def _misspelt(template: Manifest) -> None:
    template["cliques"][0]["spec"]["podSpec"]["containers"][0]["imgae"] = "registry.example.com/app:2"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            _priority,
            "spec.template.priorityClassName: no PriorityClass with name nobody-made-it was found; create it, or "
            "name one that exists",
        ),
        (
            _misspelt,
            "spec.template.cliques[0].spec.podSpec.containers[0].imgae: unknown field; did you mean image?",
        ),
    ],
    ids=["priority class", "unknown field"],
)
def test_a_template_whose_pods_the_api_server_refuses_is_refused_with_the_field(
    change: Any, said: str
) -> None:
    async def story(world: World) -> None:
        await install(world, SETS["plain"], SETS["several"])
        await edit(world, "plain", change)
        writes = world.writes(everybody=True)
        found = await rehearsed(world)
        assert world.writes(everybody=True) == writes
        assert found["plain"].refused == (said,)
        assert (found["plain"].changes, found["plain"].ends) == ((), ())
        assert (found["several"].refused, found["several"].no_pods) == ((), ())
        # The operator says the same.
        await world.start_operator()
        await world.settle()
        accepted = condition_of(await world.get(kinds.CLIQUESETS, "plain"), "Accepted")
        assert (accepted["status"], accepted["message"]) == ("False", said)

    take_over(story)


def test_a_set_that_was_accepted_stays_so_but_new_pods_that_would_be_refused_are_told() -> None:
    async def story(world: World) -> None:
        await install(world, SETS["priority"])
        await world.start_operator()
        await world.settle()
        assert (await rehearsed(world))["priority"].no_pods == ()
        await world.user.delete(PRIORITY_CLASSES, Key("", "urgent"))
        found = (await rehearsed(world))["priority"]
        assert (found.refused, found.changes, found.ends) == ((), (), ())
        missing = "no PriorityClass with name urgent was found; create it, or name one that exists"
        assert found.no_pods == (
            f"spec.template.priorityClassName: {missing}",
            f"spec.template.cliques[1].spec.podSpec.priorityClassName: {missing}",
        )

    take_over(story)


def test_what_is_not_wrong_with_a_template_is_a_notice() -> None:
    async def story(world: World) -> None:
        await install(world, SETS["plain"])
        await world.apply(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "none"},
                "spec": {"hard": {"pods": "0"}},
            }
        )
        await world.settle()
        found = (await rehearsed(world))["plain"]
        assert (found.refused, found.no_pods, found.restarts) == ((), (), [])
        assert found.notices
        assert all("pods cannot be created now" in each for each in found.notices)
        assert found.changes

    take_over(story)


# The command --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster with three sets of the Go operator and no operator."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "kubeconfig"
    with started("up", "--no-operator", "--write-kubeconfig", str(file), folder=folder) as process:
        assert process.output.readline(), process.said
        asyncio.run(_fill(file))
        yield file
        assert process.ask_to_stop() == 0


async def _fill(kubeconfig: Path) -> None:
    client = Client(HttpTransport(connection(str(kubeconfig))))
    roles = [role("fe"), role("work", 2)]
    edited = GoSet(cliqueset("edited", roles, podCliqueScalingGroups=[group("g", ["work"], 2)]))
    try:
        await create(client, 4, SETS["plain"], edited, GoSet(cliqueset("misspelt", [role("fe")])))
        for name, change in {"edited": _image, "misspelt": _misspelt}.items():
            found: Manifest = await client.get(kinds.CLIQUESETS, Key("default", name), type=dict)
            template = found["spec"]["template"]
            change(template)
            patch = {"spec": {"template": template}}
            await client.merge_patch(kinds.CLIQUESETS, Key("default", name), patch)
    finally:
        await client.close()


def test_the_command_ends_with_zero_if_no_pod_would_restart(kubeconfig: Path, grove: Grove) -> None:
    ran = grove("upgrade", "plan", "plain", "--kubeconfig", str(kubeconfig))
    assert ran.code == 0, ran.err
    first, *rest = ran.out.splitlines()
    assert first.startswith("PodCliqueSet default/plain  ")
    assert first.endswith("0 of 4 pods on nodes would restart")
    assert "  remove   ServiceAccount plain" in rest
    assert any(line.startswith("  write    PodGang plain-0: ") for line in rest)
    assert "grove: 0 of 4 pods on nodes would restart" in ran.err


def test_the_command_ends_with_one_and_lists_each_pod_that_would_restart(
    kubeconfig: Path, grove: Grove
) -> None:
    ran = grove("upgrade", "plan", "--kubeconfig", str(kubeconfig), "-n", "default", "-o", "json")
    assert ran.code == 1
    found = {each["name"]: each for each in json.loads(ran.out)["items"]}
    assert found["plain"]["restarts"] == []
    restarts = found["edited"]["restarts"]
    assert len(restarts) == 4
    assert {each["reason"] for each in restarts} == {"spec.podSpec.containers[main].image"}
    assert all(each["pod"].startswith("edited-0-g-") for each in restarts)


def test_the_command_ends_with_one_if_a_set_would_be_refused_though_no_pod_restarts(
    kubeconfig: Path, grove: Grove
) -> None:
    ran = grove("upgrade", "plan", "misspelt", "--kubeconfig", str(kubeconfig))
    assert ran.code == 1
    field = "spec.template.cliques[0].spec.podSpec.containers[0].imgae"
    assert ran.out.splitlines()[:3] == [
        "PodCliqueSet default/misspelt  would be refused; what runs goes on  "
        "0 of 1 pods on nodes would restart",
        f"  refuse   {field}: unknown field; did you mean image?",
        "",
    ]
    last = ran.err.splitlines()[-1]
    assert last == "grove: 0 of 1 pods on nodes would restart, 1 set or its new pods would be refused"


def test_the_command_names_a_set_that_does_not_exist(kubeconfig: Path, grove: Grove) -> None:
    ran = grove("upgrade", "plan", "nope", "--kubeconfig", str(kubeconfig))
    assert (ran.code, ran.out) == (1, "")
    assert "there is no PodCliqueSet 'nope'" in ran.err
