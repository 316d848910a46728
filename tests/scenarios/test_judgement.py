"""One judgement: the operator and `grove render` give the same answer to the same set."""

import pytest
from tests.scenarios.nvlink import DEFINITION
from tests.scenarios.stories import refusal

from grove.api import kinds, labels
from grove.api.config import load
from grove.cli.documents import Document
from grove.cli.given import given_in
from grove.cli.rendering import cluster, judge_manifest
from grove.errors import BadRequest, Invalid, InvalidInput
from grove.meta import Manifest
from grove.testing import make
from grove.testing.world import CRDS, World, WorldOptions, run_world

LEVELS = [
    {"domain": "zone", "key": "topology.kubernetes.io/zone"},
    {"domain": "rack", "key": "topology.kubernetes.io/rack"},
]
BINDING = make.object_manifest(kinds.TOPOLOGY_BINDINGS, "cluster", {"levels": LEVELS})
GIVEN = given_in([Document("binding", BINDING)])
#: What a preview assumes: every backend, and everything that a configuration can turn on.
EVERYTHING = WorldOptions(
    schedulers=("kai", "volcano", "koordinator", "yunikorn"),
    configuration=load("""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
topologyAwareScheduling: {enabled: true}
network: {autoMNNVLEnabled: true}
scheduler:
  profiles:
  - {name: default-scheduler}
  - {name: kai-scheduler}
  - {name: koordinator}
  - {name: volcano}
  - {name: yunikorn}
"""),
)


def packed(whole: Manifest | None, role: Manifest | None = None) -> Manifest:
    worker = make.template("worker", 2)
    if role is not None:
        worker["topologyConstraint"] = role
    template = {"topologyConstraint": {"topologyName": "cluster", **whole}} if whole is not None else {}
    return make.cliqueset_manifest("train", [worker], template=template)


def chosen(
    annotation: str = "", names: tuple[str, ...] = ("",), marks: dict[str, str] | None = None
) -> Manifest:
    roles = [
        make.template(f"role{index}", 1, pod={"schedulerName": name} if name else {})
        for index, name in enumerate(names)
    ]
    annotations = dict(marks or {})
    if annotation:
        annotations[labels.SCHEDULER_BACKEND] = annotation
    return make.cliqueset_manifest("train", roles, annotations=annotations)


SETS = {
    "a plain one": chosen(),
    "rack above zone": packed({"pack": {"required": "rack"}}, {"pack": {"required": "zone"}}),
    "zone above rack": packed({"pack": {"required": "zone"}}, {"pack": {"required": "rack"}}),
    "a level that is not there": packed({"pack": {"required": "galaxy"}}),
    "a preferred level that is not there": packed({"pack": {"preferred": "galaxy"}}),
    "another topology": packed({"topologyName": "other", "pack": {"required": "rack"}}),
    "two topologies": packed(
        {"pack": {"required": "zone"}}, {"topologyName": "other", "pack": {"required": "rack"}}
    ),
    "packDomain": packed({"packDomain": "rack"}),
    "packDomain and pack.required": packed({"packDomain": "rack", "pack": {"required": "rack"}}),
    "the annotation says kai": chosen("kai"),
    "the annotation says kai-scheduler": chosen("kai-scheduler"),
    "the annotation says grove-scheduler": chosen("grove-scheduler"),
    "the annotation says what nobody knows": chosen("slurm"),
    "a schedulerName that nobody knows": chosen(names=("slurm",)),
    "mixed schedulers": chosen(names=("default-scheduler", "kai-scheduler")),
    "two names of one scheduler": chosen(names=("kai-scheduler", "grove-scheduler")),
    "an NVLink group": chosen(marks={"grove.io/mnnvl-group": "workers"}),
    "an NVLink group that is no name": chosen(marks={"grove.io/mnnvl-group": "No Name"}),
    "a startup order": make.cliqueset_manifest(
        "train", {"a": 1, "b": 1}, template={"cliqueStartupType": "CliqueStartupTypeInOrder"}
    ),
    "a node": make.cliqueset_manifest("train", [make.template("a", 1, pod={"nodeName": "node-0"})]),
}


def rendered(manifest: Manifest) -> tuple[bool, str, str]:
    """Whether a preview accepts the set, with whom, and why not."""
    try:
        judged = judge_manifest(manifest, GIVEN, cluster("1.36"))
    except InvalidInput as refused:
        return False, "", str(refused)
    return True, judged.backend.name, ""


async def carried_out(world: World, manifest: Manifest) -> tuple[bool, str, str]:
    """The same of the operator, and of the API server before it."""
    await world.apply(BINDING)
    try:
        await world.apply(manifest)
    except (Invalid, BadRequest) as refused:
        return False, "", str(refused)
    accepted = await refusal(world, "train")
    if accepted["status"] != "True":
        return False, "", str(accepted["message"])
    await world.until(lambda: exists(world), "the gang exists")
    gang = await world.gang("train-0")
    assert gang is not None
    return True, gang["metadata"]["labels"][labels.SCHEDULER_BACKEND], ""


async def exists(world: World) -> bool:
    return await world.gang("train-0") is not None


@pytest.mark.parametrize("manifest", SETS.values(), ids=SETS)
def test_a_preview_answers_what_the_operator_answers(manifest: Manifest) -> None:
    told = rendered(manifest)

    async def story(world: World) -> None:
        await world.user.create(CRDS, DEFINITION)
        await world.start_operator()
        accepted, backend, why = await carried_out(world, manifest)
        assert (accepted, backend) == told[:2], (
            f"operator: {why or 'accepted'}; preview: {told[2] or 'accepted'}"
        )
        if "PodCliqueSet.grove.io" not in why:
            assert why == told[2]

    run_world(story, EVERYTHING, operator=False)


def test_roles_with_different_schedulers_are_invalid_and_no_missing_backend() -> None:
    async def story(world: World) -> None:
        await world.apply(chosen(names=("default-scheduler", "kai-scheduler", "kai-scheduler")))
        accepted = await refusal(world, "train")
        assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
        for index in (1, 2):
            assert f"spec.template.cliques[{index}].spec.podSpec.schedulerName" in accepted["message"]

    run_world(story)


def test_an_annotation_without_effect_is_told_by_an_accepted_set() -> None:
    async def story(world: World) -> None:
        await world.apply(chosen(marks={"grove.io/rack-colour": "green"}))
        accepted = await refusal(world, "train")
        assert accepted["status"] == "True"
        assert "metadata.annotations[grove.io/rack-colour]" in accepted["message"]
        assert "understood and supported" not in accepted["message"]

    run_world(story)
