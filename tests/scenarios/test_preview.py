"""`grove render` shows what the operator does: rendered objects and those of a running world agree."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.scenarios.nvlink import DEFINITION
from tests.scenarios.stories import STAGES, Stage, revision_of, until_running

from grove.api import kinds, labels
from grove.api.config import API_VERSION, DEFAULT_PROFILE, KIND, load
from grove.backends.registry import BUILT_INS
from grove.backends.sample import sample_of
from grove.cli.documents import Document, parse
from grove.cli.given import given_in
from grove.cli.rendering import cluster, judge_manifest, render_set
from grove.meta import Manifest, Resource, resource
from grove.testing.world import CRDS, World, WorldOptions, run_world

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(folder.parent for folder in GOLDEN.glob("*/in.yaml") if "refused" not in folder.parent.name)
_WHERE = {"none": "no gang API"}


def stage_of(case: Path) -> Stage:
    offer = case.name.partition("-")[0]
    return STAGES[_WHERE.get(offer, offer)]


def documents_of(case: Path) -> list[Document]:
    return parse((case / "in.yaml").read_text(), "in.yaml")


def applied(case: Path) -> list[Manifest]:
    """What of a case is applied: its objects, without the operator's configuration."""
    return [each.manifest for each in documents_of(case) if each.kind != KIND]


def options_of(case: Path) -> WorldOptions:
    """The world of a case: its operator is configured as the preview assumes, or as the case says."""
    stage, given = stage_of(case), given_in(documents_of(case))
    profiles: list[Manifest] = [{"name": DEFAULT_PROFILE}]
    if stage.backend != "default":
        profiles.append({"name": stage.backend, "config": dict(sample_of(stage.backend).preview_config)})
    assumed = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "topologyAwareScheduling": {"enabled": True},
        "network": {"autoMNNVLEnabled": True},
        "scheduler": {"profiles": profiles},
    }
    # Room for scaled gangs too.
    return replace(stage.options, configuration=given.configuration or load(json.dumps(assumed)), nodes=16)


def rendered(case: Path) -> list[Manifest]:
    documents = documents_of(case)
    (cliqueset,) = [each.manifest for each in documents if each.kind == "PodCliqueSet"]
    offer = case.name.partition("-")[0]
    on = cluster("1.36" if offer in BUILT_INS else offer)
    return list(render_set(judge_manifest(cliqueset, given_in(documents), on)).objects)


def named(objects: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Objects by kind and name; revisions, which depend on UIDs, are replaced by the gang that has them."""
    found = list(objects)
    pods = [each for each in found if each["kind"] == "Pod"]
    text = json.dumps(found)
    for revision, gang in {(revision_of(pod), pod["metadata"]["labels"][labels.POD_GANG]) for pod in pods}:
        text = text.replace(revision, f"<{gang}>")
    return {identity(each): each for each in json.loads(text)}


def identity(obj: Manifest) -> tuple[str, str]:
    """Kind and name; a pod's name depends on UIDs, its hostname does not."""
    if obj["kind"] == "Pod":
        return "Pod", str(obj["spec"]["hostname"])
    return str(obj["kind"]), str(obj["metadata"]["name"])


def comparable(obj: Manifest) -> Manifest:
    """A rendered object without what is made of UIDs, and without defaults that a webhook would fill in."""
    skipped = {"podReferences", "uid"}
    if obj["kind"] in ("PodClique", "ControllerRevision"):
        skipped |= {"restartPolicy", "terminationGracePeriodSeconds"}
    if obj["kind"] == "ControllerRevision":
        skipped |= {"minAvailable", "minReplicas"}
    metadata = {**obj["metadata"]}
    if obj["kind"] == "Pod":
        del metadata["name"]
    found = _without({**obj, "metadata": metadata}, skipped)
    assert isinstance(found, dict)
    return found


def _without(value: object, skipped: set[str]) -> object:
    if isinstance(value, dict):
        return {key: _without(item, skipped) for key, item in value.items() if key not in skipped}
    return [_without(item, skipped) for item in value] if isinstance(value, list) else value


def lacking(want: object, have: object, path: str = "") -> list[str]:
    """Where an existing object does not have what was rendered; what a server adds does not count."""
    if isinstance(want, dict):
        found = have if isinstance(have, dict) else {}
        return [line for key, item in want.items() for line in lacking(item, found.get(key), f"{path}.{key}")]
    if isinstance(want, list):
        items = have if isinstance(have, list) else []
        if len(items) < len(want):
            return [f"{path}: {len(want)} rendered, {len(items)} there"]
        return [
            line
            for index, item in enumerate(want)
            for line in lacking(item, items[index], f"{path}[{index}]")
        ]
    return [] if want == have or want in ({}, None) else [f"{path}: {want!r} rendered, {have!r} there"]


def resource_of(obj: Manifest) -> Resource:
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    plural = "topologies" if obj["kind"] == "Topology" else ""
    return resource(group, version, str(obj["kind"]), plural, namespaced=obj["kind"] != "Topology")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_operator_makes_what_was_rendered(case: Path) -> None:
    want = named(rendered(case))
    gates = {name: each["spec"].pop("schedulingGates") for name, each in want.items() if name[0] == "Pod"}

    async def story(world: World) -> None:
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
        queue = {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "research"},
            "spec": {"parentQueue": "default-parent-queue"},
        }
        quota = {**queue, "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "spec": {}}
        volcanos = {**queue, "apiVersion": "scheduling.volcano.sh/v1beta1", "spec": {"weight": 1}}
        needed = {"kai": [queue], "koordinator": [quota], "volcano": [volcanos]}.get(
            stage_of(case).backend, []
        )
        if any(kind == kinds.COMPUTE_DOMAINS.kind for kind, _ in want):
            await world.user.create(CRDS, DEFINITION)
        await world.start_operator()
        await world.apply(urgent, *needed, *applied(case))
        await until_running(world, *(name for kind, name in want if kind == "PodGang"))
        await world.settle()
        served = {resource_of(obj) for obj in want.values()}
        have = named([found for each in served for found in await world.all(each)])
        assert have.keys() == want.keys()
        for name, obj in want.items():
            assert lacking(comparable(obj), have[name], "/".join(name)) == []

    run_world(story, options_of(case), operator=False)
    assert all(len(each) == 1 for each in gates.values())
