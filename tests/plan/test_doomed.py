"""What goes with its owner, and in which order its pods are deleted."""

import pytest
from msgspec.structs import replace

from grove.api import kinds
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Key, Object, OwnerReference
from grove.plan.doomed import FOREGROUND, ORPHAN, Fate, Owners, deletions, doomed_pods, fate_with
from grove.testing import make

SET = make.cliqueset("train", uid="set")
NAMESAKE = make.cliqueset("train", uid="another")
GROUP = make.view(
    PodCliqueScalingGroup,
    make.object_manifest(kinds.SCALING_GROUPS, "train-0-dec", {}, uid="group", owner=(SET, kinds.CLIQUESETS)),
)
CLIQUE = make.clique("train-0-worker", uid="clique", owner=(SET, kinds.CLIQUESETS))
OF_GROUP = make.clique("train-0-dec-0-work", uid="member", owner=(GROUP, kinds.SCALING_GROUPS))


def deleted(item: Object, *finalizers: str) -> Object:
    """The object as it is while these finalizers keep it."""
    metadata = replace(item.metadata, deletion_timestamp="2030-01-01T00:00:00Z", finalizers=finalizers)
    return replace(item, metadata=metadata)


def with_finalizer(item: Object, finalizer: str) -> Object:
    return replace(item, metadata=replace(item.metadata, finalizers=(finalizer,)))


@pytest.mark.parametrize(
    ("owner", "fate"),
    [
        pytest.param(SET, Fate.STAYS, id="it is there"),
        pytest.param(None, Fate.GOES, id="it is gone"),
        pytest.param(NAMESAKE, Fate.GOES, id="another one has its name"),
        pytest.param(deleted(SET, FOREGROUND), Fate.AWAITED, id="it is deleted in the foreground"),
        pytest.param(deleted(SET, ORPHAN), Fate.STAYS, id="it is deleted without its dependents"),
        pytest.param(
            deleted(SET, FOREGROUND, ORPHAN), Fate.STAYS, id="both, as the collector orphans them first"
        ),
        pytest.param(deleted(SET, "example.com/hold"), Fate.STAYS, id="somebody else keeps it"),
        pytest.param(with_finalizer(SET, FOREGROUND), Fate.STAYS, id="it is not deleted at all"),
    ],
)
def test_what_becomes_of_dependents(owner: Object | None, fate: Fate) -> None:
    assert fate_with(owner, "set") is fate


@pytest.mark.parametrize(
    ("cliqueset", "group", "fate"),
    [
        (SET, GROUP, Fate.STAYS),
        (None, GROUP, Fate.GOES),
        (SET, None, Fate.GOES),
        (NAMESAKE, GROUP, Fate.GOES),
        (deleted(SET, FOREGROUND), GROUP, Fate.AWAITED),
        (SET, deleted(GROUP, FOREGROUND), Fate.AWAITED),
        (None, deleted(GROUP, ORPHAN), Fate.STAYS),
        (deleted(SET, ORPHAN), GROUP, Fate.STAYS),
    ],
)
def test_a_clique_in_a_group_goes_with_the_group_or_with_its_set(
    cliqueset: Object | None, group: Object | None, fate: Fate
) -> None:
    owners = Owners(lambda key: cliqueset, lambda key: group)
    assert owners.fate(OF_GROUP) is fate


def owned_by(item: Object, *references: OwnerReference) -> Object:
    return replace(item, metadata=replace(item.metadata, owner_references=references))


OTHER = OwnerReference(api_version="v1", kind="ConfigMap", name="keeper", uid="keeper")


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(owned_by(CLIQUE), id="nobody owns it"),
        pytest.param(owned_by(CLIQUE, *CLIQUE.metadata.owner_references, OTHER), id="others own it too"),
        pytest.param(owned_by(CLIQUE, replace(OTHER, controller=True)), id="somebody else owns it"),
        pytest.param(with_finalizer(CLIQUE, ORPHAN), id="it goes without its own dependents"),
    ],
)
def test_what_does_not_go_with_a_set_that_is_gone(item: Object) -> None:
    gone = Owners(lambda key: None, lambda key: None)
    assert gone.fate(CLIQUE) is Fate.GOES
    assert gone.fate(item) is Fate.STAYS


def test_the_pods_of_an_earlier_clique_and_of_one_that_is_awaited_are_doomed() -> None:
    earlier = make.clique(uid="earlier")
    ours = make.pod(name="ours", owner=(make.clique(uid="clique"), kinds.CLIQUES))
    before = make.pod(name="before", owner=(earlier, kinds.CLIQUES))
    going = make.pod(name="going", owner=(earlier, kinds.CLIQUES), deleted=True)
    pods, key = [ours, before, going], Key("default", "train-0-worker")
    there = make.clique(uid="clique")

    def names(holder: Object | None) -> list[str]:
        return [pod.name for pod in doomed_pods(pods, key, holder)]

    assert names(there) == ["before"]
    assert names(None) == ["ours", "before"]
    assert names(deleted(there, FOREGROUND)) == ["ours", "before"]
    assert names(deleted(there, ORPHAN)) == ["before"]
    assert doomed_pods(pods, Key("default", "train-0-router"), None) == []


def test_pods_that_could_still_be_placed_are_deleted_first_and_those_on_nodes_last() -> None:
    bound = make.pod(name="bound", node="node-0")
    gated = make.pod(name="gated", gates=["grove.io/podgang"])
    waiting = make.pod(name="waiting")
    assert [each.key.name for each in deletions([bound, gated, waiting])] == ["waiting", "gated", "bound"]


def test_a_pod_is_deleted_as_it_was_observed() -> None:
    pod = make.pod(name="one")
    (deletion,) = deletions([pod])
    assert (deletion.uid, deletion.resource_version) == (pod.uid, pod.metadata.resource_version)
