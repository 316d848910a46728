"""`grove bundle`: what Grove makes of sets, so that updates, autoscaling and leadership can be followed from the file."""

import json
from typing import Final

import pytest
import yaml
from tests.cli.test_bundle import PLANTED, collected, secretive
from tests.cli.test_doctor import CONFIGURATION, install, leased
from tests.scenarios.nvlink import DEFINITION
from tests.scenarios.stories import device, sharing_devices

from grove.api import kinds, labels
from grove.cli.bundling.archive import Archive
from grove.cli.bundling.redaction import REMOVED
from grove.cli.permissions import LEASES
from grove.embedded.identity import User
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.meta import Manifest
from grove.plan.children.registry import KINDS
from grove.testing.memory import MemoryTransport
from grove.testing.world import CRDS, World, run_world

LEADER: Final = "grove-operator-leader-election"
#: Made only for what this set does not ask for, or by the Go operator.
NOT_OF_THIS_SET: Final = {kinds.SERVICE_ACCOUNTS, kinds.ROLES, kinds.ROLE_BINDINGS, kinds.SCALING_GROUPS}


def with_everything(name: str) -> Manifest:
    """A set with secrets in its pods, which scales, keeps a budget and shares devices."""
    manifest = sharing_devices(secretive(name), within_gangs=False)
    manifest["metadata"]["annotations"] = {labels.DISRUPTION_BUDGET: "MinAvailable"}
    (role,) = manifest["spec"]["template"]["cliques"]
    role["spec"] |= {"minAvailable": 1, "autoScalingConfig": {"minReplicas": 1, "maxReplicas": 4}}
    return manifest


def objects(archive: Archive, path: str) -> list[Manifest]:
    return list(yaml.safe_load_all(archive.entries[path]))


def skipped(archive: Archive) -> dict[str, str]:
    return {each["what"]: each["why"] for each in archive.skipped}


def test_the_children_of_sets_are_there_and_those_of_others_are_not() -> None:
    async def story(world: World) -> None:
        await world.apply(with_everything("train"))
        for kind, spec in ((kinds.SERVICES, {"ports": [{"port": 1}]}), (kinds.RESOURCE_CLAIMS, device("x"))):
            await world.user.create(
                kind, {"metadata": {"name": "others", "namespace": "default"}, "spec": spec}
            )
        mine = {"metadata": {"name": "mine", "namespace": "default"}, "spec": {"spec": device("mine")}}
        await world.user.create(kinds.RESOURCE_CLAIM_TEMPLATES, mine)
        await world.settle()
        archive = await collected(world, world.user)
        served = {each.resource for each in KINDS} - {kinds.COMPUTE_DOMAINS} - NOT_OF_THIS_SET
        for each in served:
            (found, *_) = objects(archive, f"objects/{each}.yaml")
            assert found["metadata"]["labels"][labels.PART_OF] == "train", each
        for each in (kinds.SERVICES, kinds.RESOURCE_CLAIMS):
            assert "others" not in archive.entries[f"objects/{each}.yaml"].decode()
        (template,) = objects(archive, f"objects/{kinds.RESOURCE_CLAIM_TEMPLATES}.yaml")
        assert template["metadata"]["name"] == "mine"
        assert skipped(archive)[str(kinds.COMPUTE_DOMAINS)] == "the cluster does not serve it"

    run_world(story)


def test_the_templates_that_are_kept_lose_the_values_of_their_environment() -> None:
    async def story(world: World) -> None:
        await world.apply(with_everything("train"))
        await world.settle()
        archive = await collected(world, world.user)
        (revision,) = objects(archive, f"objects/{kinds.CONTROLLER_REVISIONS}.yaml")
        (role,) = revision["data"]["spec"]["template"]["cliques"]
        (container,) = role["spec"]["podSpec"]["containers"]
        assert container["env"] == [{"name": "PASSWORD", "value": REMOVED}]
        assert container["args"] == ["--token", REMOVED]
        assert container["image"]
        assert PLANTED not in json.dumps([each.decode() for each in archive.entries.values()])

    run_world(story)


def test_domains_are_there_where_the_cluster_serves_them() -> None:
    async def story(world: World) -> None:
        await world.user.create(CRDS, DEFINITION)
        ours, others = ({labels.MANAGED_BY: each} for each in (labels.MANAGER, "somebody"))
        for name, marks in (("ours", ours), ("others", others)):
            meta = {"name": name, "namespace": "default", "labels": marks}
            spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}}
            await world.user.create(kinds.COMPUTE_DOMAINS, {"metadata": meta, "spec": spec})
        archive = await collected(world, world.user)
        (found,) = objects(archive, f"objects/{kinds.COMPUTE_DOMAINS}.yaml")
        assert found["metadata"]["name"] == "ours"

    run_world(story, operator=False)


EXTERNAL: Final = CONFIGURATION + "scheduler: {profiles: [{name: kai-scheduler, external: true}]}\n"


@pytest.mark.parametrize(
    ("configuration", "want"),
    [(CONFIGURATION, [LEADER]), (EXTERNAL, [LEADER, f"{LEADER}-kai"])],
    ids=["the operator alone", "with the process of a backend"],
)
def test_who_leads_is_in_the_bundle_and_no_lease_of_others(configuration: str, want: list[str]) -> None:
    async def story(world: World) -> None:
        await install(world, configuration)
        for name in (LEADER, f"{LEADER}-kai", "somebody"):
            await world.user.create(LEASES, leased(1, name))
        archive = await collected(world, world.user)
        found = objects(archive, "operator/leases.yaml")
        assert [each["metadata"]["name"] for each in found] == want
        assert {each["spec"]["holderIdentity"] for each in found} == {"operator-a"}

    run_world(story, operator=False)


def test_children_and_leases_that_may_not_be_read_are_named_and_the_rest_is_there() -> None:
    async def story(world: World) -> None:
        nobody = Client(MemoryTransport(world.cluster.app, User("nobody", ())), limiter=Limiter.off())
        archive = await collected(world, nobody)
        left_out = skipped(archive)
        for each in (*(kind.resource for kind in KINDS), kinds.RESOURCE_CLAIM_TEMPLATES):
            assert str(each) in left_out
        assert "cannot list resource" in left_out[str(kinds.CONTROLLER_REVISIONS)]
        assert "cannot list resource" in left_out[f"{LEASES} {LEADER}"]
        assert "versions.json" in archive.entries

    run_world(story, operator=False)
