"""Bindings, cliques, groups and gangs that people write."""

from collections.abc import Callable

import pytest
from tests.scenarios.stories import rack_binding
from tests.webhook.asking import Told, Webhooks

from grove.api import kinds, labels
from grove.meta import Manifest, Resource
from grove.testing import make
from grove.testing.world import World, WorldOptions, run_world

SETS = kinds.CLIQUESETS


def ask(
    resource: Resource, new: Manifest, old: Manifest | None = None, options: WorldOptions | None = None
) -> Told:
    found: list[Told] = []

    async def story(world: World) -> None:
        found.append(await Webhooks(world).validate(resource, new, old))

    run_world(story, options)
    return found[0]


def binding(*levels: tuple[str, str], **spec: object) -> Manifest:
    listed = [{"domain": domain, "key": key} for domain, key in levels]
    return make.object_manifest(kinds.TOPOLOGY_BINDINGS, "dc", {"levels": listed, **spec})


def referring(*schedulers: str) -> Manifest:
    named = [{"schedulerName": name, "topologyReference": "t"} for name in schedulers]
    return binding(("rack", "a"), schedulerTopologyBindings=named)


BINDINGS = {
    "a level twice": (
        binding(("rack", "a"), ("rack", "b")),
        'spec.levels[1].domain: Duplicate value: "rack"',
    ),
    "a key twice": (binding(("rack", "a"), ("zone", "a")), 'spec.levels[1].key: Duplicate value: "a"'),
    "a scheduler twice": (
        referring("kai-scheduler", "kai-scheduler"),
        'spec.schedulerTopologyReferences[1].schedulerName: Duplicate value: "kai-scheduler"',
    ),
    "a scheduler that is not enabled": (
        referring("nobodys"),
        'spec.schedulerTopologyReferences[0].schedulerName: Invalid value: "nobodys": scheduler backend is not '
        "enabled in Grove",
    ),
    "one that reads no topology": (
        referring("default-scheduler"),
        'Invalid value: "default-scheduler": scheduler backend does not implement topology-aware scheduling',
    ),
}


@pytest.mark.parametrize(("manifest", "sentence"), BINDINGS.values(), ids=BINDINGS)
def test_a_binding_that_makes_no_sense_is_refused(manifest: Manifest, sentence: str) -> None:
    said = ask(kinds.TOPOLOGY_BINDINGS, manifest, options=WorldOptions(schedulers=("kai",)))
    assert not said.allowed
    assert sentence in said.message


def test_a_binding_that_is_wrong_may_lose_its_finalizers() -> None:
    wrong = binding(("rack", "a"), ("rack", "b"))
    assert ask(
        kinds.TOPOLOGY_BINDINGS, {**wrong, "metadata": {"name": "dc", "finalizers": []}}, wrong
    ).allowed


def test_who_asks_for_a_level_that_would_go_is_named() -> None:
    async def story(world: World) -> None:
        await world.apply(rack_binding())
        constraint = {"topologyName": "cluster", "pack": {"required": "rack"}}
        await world.apply(make.cliqueset_manifest("train", template={"topologyConstraint": constraint}))
        await world.settle()
        old = await world.get(kinds.TOPOLOGY_BINDINGS, "cluster")
        assert old is not None
        new = {**old, "spec": {"levels": [{"domain": "zone", "key": "z"}]}}
        said = await Webhooks(world).validate(kinds.TOPOLOGY_BINDINGS, new, old)
        assert said.allowed
        assert said.warnings == ("PodCliqueSet default/train asks for level 'rack', which would be gone",)

    run_world(story)


Edit = Callable[[Manifest], object]
GANGS: dict[str, tuple[Manifest, str]] = {
    "no podgroups": (
        {**make.gang_manifest(), "spec": {"podgroups": []}},
        "spec.podgroups: a gang needs at least one podgroup",
    ),
    "a podgroup that no label can name": (
        make.gang_manifest(podgroups={"Big_Group": 1}),
        "spec.podgroups[0].name: 'Big_Group' must be a DNS label",
    ),
    "a group of nobody": (
        make.gang_manifest(podgroups={"a": 1}, groups=[make.group("both", ["a", "b"], required="rack")]),
        "spec.topologyConstraintGroupConfigs[0].podGroupNames: no podgroup is called 'b'; there are a",
    ),
    "a backend that is not enabled": (
        make.gang_manifest(annotations={labels.SCHEDULER_BACKEND: "nobodys"}),
        f"metadata.annotations[{labels.SCHEDULER_BACKEND}]: 'nobodys': scheduler backend is not enabled in Grove",
    ),
    "a name that no label can hold": (make.gang_manifest("a" * 64), "metadata.name: may have 63 characters"),
    "a group twice": (
        make.gang_manifest(podgroups=[make.podgroup("a"), make.podgroup("a")]),
        "spec.podgroups: must be unique; used more than once: a",
    ),
}


@pytest.mark.parametrize(("manifest", "sentence"), GANGS.values(), ids=GANGS)
def test_a_gang_that_nobody_could_place_is_refused(manifest: Manifest, sentence: str) -> None:
    said = ask(kinds.GANGS, manifest)
    assert not said.allowed
    assert sentence in said.message


def test_a_gang_of_somebody_else_is_allowed() -> None:
    assert ask(kinds.GANGS, make.gang_manifest()) == Told(True)


def owned_clique(**spec: object) -> Manifest:
    return make.clique_manifest(spec=dict(spec), owner=(make.cliqueset(), SETS))


def test_who_edits_a_clique_is_told_what_becomes_of_it() -> None:
    old = owned_clique()
    said = ask(kinds.CLIQUES, owned_clique(startsAfter=["x"]), old)
    assert said.allowed
    assert said.warnings == (
        "spec.startsAfter: will be put back to what PodCliqueSet train says; edit the PodCliqueSet instead",
    )
    assert ask(kinds.CLIQUES, owned_clique(replicas=7), old) == Told(True)
    alone = ask(kinds.CLIQUES, make.clique_manifest())
    assert alone.warnings == ("nobody acts on a PodClique that no PodCliqueSet owns; create a PodCliqueSet",)


def test_a_clique_without_containers_is_refused() -> None:
    said = ask(kinds.CLIQUES, make.clique_manifest(spec={"podSpec": {"containers": []}}))
    assert said.message == "spec.podSpec.containers: at least one container is required"


def test_a_scaling_group_without_cliques_is_refused() -> None:
    group = make.object_manifest(kinds.SCALING_GROUPS, "g", {"cliqueNames": [], "minAvailable": 0})
    said = ask(kinds.SCALING_GROUPS, group)
    assert [cause.partition(":")[0] for cause in said.causes] == ["spec.minAvailable", "spec.cliqueNames"]
