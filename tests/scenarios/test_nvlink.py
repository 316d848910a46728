"""AutoMNNVL of the Go operator's end-to-end suite: NVLink domains on demand, for each replica, gone with it."""

from dataclasses import replace
from typing import Final

import pytest
from tests.scenarios.nvlink import ALONE, DEFINITION, ENABLED, GROUP, MIXED, cliqueset, joined, mixed, role
from tests.scenarios.stories import pass_time

from grove.api import kinds, labels
from grove.api.config import load
from grove.errors import Invalid
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import CONFIGURATION, CRDS, World, WorldOptions, run_world

DISABLED: Final = WorldOptions(configuration=load(CONFIGURATION))


async def domains(world: World) -> set[str]:
    return {each["metadata"]["name"] for each in await world.all(kinds.COMPUTE_DOMAINS)}


async def accepted(world: World, name: str = "job") -> tuple[str, str, str]:
    found = await world.get(kinds.CLIQUESETS, name) or {}
    (told,) = [each for each in found["status"]["conditions"] if each["type"] == "Accepted"]
    return told["status"], told["reason"], told["message"]


async def claims(world: World) -> dict[str, tuple[list[str], list[list[str]]]]:
    return joined(await world.pods())


def run(story: object, options: WorldOptions = ENABLED, *, served: bool = True) -> None:
    """Play a story in a cluster with or without NVIDIA's driver."""

    async def whole(world: World) -> None:
        if served:
            await world.user.create(CRDS, DEFINITION)
        await world.start_operator()
        await story(world)  # type: ignore[operator]

    run_world(whole, options, operator=False)


def test_supported_and_enabled_without_the_annotation_there_is_neither_domain_nor_claim() -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu")]))
        await world.settle()
        assert await domains(world) == set()
        assert await claims(world) == {"job-0-gpu-0": ([], ALONE)}

    run(story)


def test_supported_and_enabled_each_clique_gets_the_claims_that_it_should() -> None:
    async def story(world: World) -> None:
        await world.apply(mixed())
        await world.settle()
        (domain,) = await world.all(kinds.COMPUTE_DOMAINS)
        metadata = domain["metadata"]
        assert metadata["labels"] == {
            labels.MANAGED_BY: "grove-operator",
            labels.PART_OF: "job",
            labels.NAME: "job-0-default",
            labels.COMPONENT: "pcs-computedomain",
            labels.SET_REPLICA_INDEX: "0",
            GROUP: "default",
        }
        assert [(ref["kind"], ref["name"], ref["controller"]) for ref in metadata["ownerReferences"]] == [
            ("PodCliqueSet", "job", True)
        ]
        assert "finalizers" not in metadata
        template = {"resourceClaimTemplate": {"name": "job-0-default"}}
        assert domain["spec"] == {"numNodes": 0, "channel": template}
        assert await claims(world) == MIXED
        group = await world.get(kinds.SCALING_GROUPS, "job-0-sg1") or {}
        assert group["metadata"]["annotations"][GROUP] == "default"

    run(story)


def test_supported_and_enabled_the_narrowest_annotation_counts_and_none_opts_out() -> None:
    async def story(world: World) -> None:
        await world.apply(
            cliqueset(
                [role("own", group="a"), role("ofgroup"), role("out", group="none"), role("ofset")],
                group="c",
                groups=[make.scaling_group("sg", ["ofgroup", "own"], annotations={GROUP: "b"})],
            )
        )
        await world.settle()
        assert await domains(world) == {"job-0-a", "job-0-b", "job-0-c"}
        assert {host: templates for host, (templates, _) in (await claims(world)).items()} == {
            "job-0-sg-0-own-0": ["job-0-a"],
            "job-0-sg-0-ofgroup-0": ["job-0-b"],
            "job-0-out-0": [],
            "job-0-ofset-0": ["job-0-c"],
        }

    run(story)


def test_supported_and_enabled_scaling_and_deleting_manages_domains_also_at_zero() -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu")], group="a", replicas=2))
        await world.settle()
        assert await domains(world) == {"job-0-a", "job-1-a"}
        await world.scale("job", 3)
        await world.settle()
        assert await domains(world) == {"job-0-a", "job-1-a", "job-2-a"}
        await world.scale("job", 1)
        await world.settle()
        assert await domains(world) == {"job-0-a"}
        await world.scale("job", 0)
        await world.settle()
        assert await domains(world) == set()
        await world.scale("job", 1)
        await world.settle()
        assert await domains(world) == {"job-0-a"}
        await world.user.delete(kinds.CLIQUESETS, Key("default", "job"))
        await world.settle()
        assert await domains(world) == set()

    run(story)


def test_a_domain_stays_until_the_last_pod_that_is_in_it_is_gone() -> None:
    async def story(world: World) -> None:
        slow = role("gpu", annotations={"embedded.grove.io/shutdown": "60s"})
        slow["spec"]["podSpec"]["terminationGracePeriodSeconds"] = 3600
        await world.apply(cliqueset([slow], group="a"))
        await world.settle()
        await world.scale("job", 0)
        await pass_time(30)
        assert await domains(world) == {"job-0-a"}
        await world.settle(quiet=90)
        assert await domains(world) == set()

    run(story)


def test_supported_and_enabled_an_invalid_annotation_is_refused_with_its_place() -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu", group="Not A Label")]))
        await world.settle()
        status, reason, message = await accepted(world)
        assert (status, reason) == ("False", "Invalid")
        assert message.startswith(f"spec.template.cliques[0].annotations[{GROUP}]")
        assert await world.pods() == []

    run(story)


def test_supported_and_enabled_a_clique_without_gpus_is_ignored_and_the_set_says_so() -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("cpu", gpus=0, group="a"), role("gpu", group="b")]))
        await world.settle()
        assert await domains(world) == {"job-0-b"}
        status, _, message = await accepted(world)
        assert status == "True"
        assert message == (
            f"spec.template.cliques[0].annotations[{GROUP}]: none of its pods asks for nvidia.com/gpu, so that "
            "none joins an NVLink domain"
        )

    run(story)


@pytest.mark.parametrize("value", ["b", "none", None], ids=["changed", "opted out", "removed"])
def test_supported_and_enabled_the_annotation_of_a_set_cannot_be_changed(value: str | None) -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu")], group="a"))
        await world.settle()
        before = await world.pods()
        patch = {"metadata": {"annotations": {GROUP: value}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "job"), patch)
        await world.settle()
        status, reason, message = await accepted(world)
        assert (status, reason) == ("False", "Invalid")
        assert message.startswith(f"metadata.annotations[{GROUP}]: cannot be changed")
        assert await domains(world) == {"job-0-a"}
        assert await world.pods() == before
        back = {"metadata": {"annotations": {GROUP: "a"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "job"), back)
        await world.settle()
        assert (await accepted(world))[0] == "True"

    run(story)


def test_supported_and_enabled_the_annotation_cannot_be_added_to_a_set_that_runs() -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu")]))
        await world.settle()
        patch = {"metadata": {"annotations": {GROUP: "a"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "job"), patch)
        await world.settle()
        assert (await accepted(world))[:2] == ("False", "Invalid")
        assert await domains(world) == set()

    run(story)


@pytest.mark.parametrize("level", ["role", "group"])
def test_supported_and_enabled_the_api_server_refuses_another_group_of_a_role_or_scaling_group(
    level: str,
) -> None:
    def made(group: str) -> Manifest:
        marks = {GROUP: group} if group else {}
        of_group = marks if level == "group" else {}
        return cliqueset(
            [role("gpu", annotations=marks if level == "role" else {})],
            groups=[make.scaling_group("sg", ["gpu"], annotations=of_group)],
        )

    async def story(world: World) -> None:
        await world.apply(made("a"))
        for other in ("b", "none", ""):
            with pytest.raises(Invalid, match=f"annotation {GROUP} is immutable"):
                await world.apply(made(other))

    run(story)


def test_a_role_that_begins_to_ask_for_gpus_joins_its_domain() -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("work", gpus=0)], group="a"))
        await world.settle()
        assert await domains(world) == set()
        await world.apply(cliqueset([role("work", gpus=1)], group="a"))
        await world.settle()
        assert (await accepted(world))[0] == "True"
        assert await domains(world) == {"job-0-a"}
        clique = await world.get(kinds.CLIQUES, "job-0-work") or {}
        assert clique["spec"]["podSpec"]["resourceClaims"] == [
            {"name": "mnnvl-claim", "resourceClaimTemplateName": "job-0-a"}
        ]

    run(story)


@pytest.mark.parametrize("served", [True, False], ids=["supported", "unsupported"])
def test_disabled_a_set_with_the_annotation_is_refused_and_one_without_runs(served: bool) -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu")], group="a"))
        await world.apply(cliqueset([role("gpu")], name="plain"))
        await world.apply(cliqueset([role("gpu", group="none")], name="out"))
        await world.settle()
        status, reason, message = await accepted(world)
        assert (status, reason) == ("False", "Unsupported")
        assert message.startswith(
            f"metadata.annotations[{GROUP}]: MNNVL is not enabled in the operator configuration"
        )
        assert await claims(world) == {
            "plain-0-gpu-0": ([], ALONE),
            "out-0-gpu-0": ([], ALONE),
        }
        if served:
            assert await domains(world) == set()

    run(story, DISABLED, served=served)


def test_unsupported_but_enabled_the_set_is_refused_the_operator_works_on_and_the_definition_heals_it() -> (
    None
):
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu")], group="a"))
        await world.apply(cliqueset([role("gpu")], name="plain"))
        await world.settle()
        status, reason, message = await accepted(world)
        assert (status, reason) == ("False", "Unsupported")
        assert message == (
            f"metadata.annotations[{GROUP}]: the cluster does not serve computedomains.resource.nvidia.com, "
            "v1beta1: install NVIDIA's DRA driver"
        )
        assert await world.phase("plain-0") == "Running"
        await world.user.create(CRDS, DEFINITION)

        async def healed() -> bool:
            return await world.phase("job-0") == "Running"

        await world.until(healed, "the set runs")
        assert await domains(world) == {"job-0-a"}
        await world.user.delete(kinds.CLIQUESETS, Key("default", "job"))
        await world.settle()
        assert await domains(world) == set()

    run(story, served=False)


def test_pods_that_become_ready_only_together_are_all_placed_also_those_of_scaled_gangs() -> None:
    """A domain is ready when all of its pods are on nodes: nobody may wait for readiness before that."""

    async def story(world: World) -> None:
        worker = role("gpu", annotations={"embedded.grove.io/not-ready": "true"})
        group = make.scaling_group("sg", ["gpu"], replicas=3, minAvailable=1)
        await world.apply(cliqueset([worker], group="a", groups=[group]))

        async def all_placed() -> bool:
            pods = await world.pods()
            return len(pods) == 3 and all(pod["spec"].get("nodeName") for pod in pods)

        await world.until(all_placed, "all pods are on nodes although none is ready")
        for pod in await world.pods():
            ready = {"metadata": {"annotations": {"embedded.grove.io/not-ready": None}}}
            await world.user.merge_patch(kinds.PODS, Key("default", pod["metadata"]["name"]), ready)

        async def running() -> bool:
            phases = [await world.phase(name) for name in ("job-0", "job-0-sg-0", "job-0-sg-1")]
            return phases == ["Running"] * 3

        await world.until(running, "base gang and scaled gangs run")

    run(story)


def test_a_domain_that_somebody_deletes_is_made_again_and_its_spec_is_never_written_to() -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu")], group="a"))
        await world.settle()
        before = await world.get(kinds.COMPUTE_DOMAINS, "job-0-a") or {}
        strip = {"metadata": {"labels": {GROUP: None}, "ownerReferences": None}}
        await world.user.merge_patch(kinds.COMPUTE_DOMAINS, Key("default", "job-0-a"), strip)
        await world.settle()
        mended = await world.get(kinds.COMPUTE_DOMAINS, "job-0-a") or {}
        for field in ("uid", "labels", "ownerReferences"):
            assert mended["metadata"][field] == before["metadata"][field]
        await world.user.delete(kinds.COMPUTE_DOMAINS, Key("default", "job-0-a"))
        await world.settle()
        again = await world.get(kinds.COMPUTE_DOMAINS, "job-0-a") or {}
        assert again["metadata"]["uid"] != before["metadata"]["uid"]
        writes = world.writes()
        await world.kill_operator()
        await world.start_operator()
        await pass_time(60)
        assert world.writes() == writes

    run(story)


@pytest.mark.parametrize("end", ["scaled away", "set deleted"])
def test_a_domain_that_the_go_operator_made_loses_its_finalizer_when_it_goes(end: str) -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset([role("gpu")], group="a", replicas=2))
        await world.settle()
        held = {"metadata": {"finalizers": [labels.COMPUTE_DOMAIN_FINALIZER]}}
        await world.user.merge_patch(kinds.COMPUTE_DOMAINS, Key("default", "job-1-a"), held)
        if end == "scaled away":
            await world.scale("job", 1)
        else:
            await world.user.delete(kinds.CLIQUESETS, Key("default", "job"))
        await world.settle()
        assert await domains(world) == ({"job-0-a"} if end == "scaled away" else set())

    run(story)


def test_the_operator_may_do_all_of_it_with_the_roles_that_are_shipped() -> None:
    from tests.deploy.test_rbac import ACCOUNT, install, refusals, start, with_domains

    async def story(world: World) -> None:
        await world.user.create(CRDS, DEFINITION)
        await install(world, with_domains())
        await start(world)
        await world.apply(cliqueset([role("gpu")], group="a", replicas=2))
        await world.settle()
        await world.scale("job", 0)
        await world.settle()
        assert await domains(world) == set()
        assert refusals(world) == []

    run_world(story, replace(ENABLED, operator_user=ACCOUNT), operator=False)
