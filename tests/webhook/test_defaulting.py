"""What a set leaves out is filled in by a patch that touches nothing else."""

import copy

from tests.webhook.asking import Webhooks, review

from grove.admission import default
from grove.api import kinds
from grove.meta import Manifest
from grove.testing import make
from grove.testing.world import World, run_world
from grove.webhook.cliquesets import default_cliqueset
from grove.webhook.review import read

SHORT: Manifest = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "llm", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "template": {
            "cliques": [
                {"name": "worker", "spec": {"podSpec": {"containers": [{"name": "main", "image": "x"}]}}}
            ]
        },
    },
}


def patch_of(new: Manifest, old: Manifest | None = None) -> list[Manifest]:
    return list(default_cliqueset(read(review(kinds.CLIQUESETS, new, old))).patch)


def test_what_clients_of_the_typed_api_need_is_added_and_nothing_else() -> None:
    role = "/spec/template/cliques/0/spec"
    assert {each["path"]: (each["op"], each["value"]) for each in patch_of(SHORT)} == {
        f"{role}/roleName": ("add", ""),
        f"{role}/replicas": ("add", 1),
        f"{role}/minAvailable": ("add", 1),
        f"{role}/podSpec/restartPolicy": ("add", "Always"),
        f"{role}/podSpec/terminationGracePeriodSeconds": ("add", 30),
        "/spec/template/cliqueStartupType": ("add", "CliqueStartupTypeAnyOrder"),
        "/spec/template/terminationDelay": ("add", "4h0m0s"),
        "/spec/template/headlessServiceConfig": ("add", {"publishNotReadyAddresses": True}),
    }


def test_the_patch_leads_to_the_defaults_and_twice_is_once() -> None:
    async def story(world: World) -> None:
        webhooks = Webhooks(world)
        filled = await webhooks.default(SHORT)
        assert filled["spec"] == default(SHORT)["spec"]
        assert patch_of(filled) == []

    run_world(story)


def test_a_minimum_that_an_update_leaves_out_stays_what_it_was() -> None:
    old = make.cliqueset_manifest("train", {"worker": 4})
    old["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 4
    new = make.cliqueset_manifest("train", {"worker": 6})
    minima = [each["value"] for each in patch_of(new, old) if each["path"].endswith("minAvailable")]
    assert minima == [4]
    undecided = copy.deepcopy(old)
    del undecided["spec"]["template"]["cliques"][0]["spec"]["minAvailable"]
    assert [each for each in patch_of(new, undecided) if each["path"].endswith("minAvailable")] == []


def test_what_cannot_be_read_is_left_to_the_api_server() -> None:
    assert patch_of({**SHORT, "spec": {"template": {"cliques": "many"}}}) == []
    assert patch_of({**SHORT, "spec": None})
