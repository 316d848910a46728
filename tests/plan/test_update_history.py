"""Recorded templates: what each says of itself, how to go back to one, and how to restart without a change."""

import copy
from typing import Any

import pytest

from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.api.controller_revision import ControllerRevision
from grove.api.gang import PodGang
from grove.meta import Manifest
from grove.plan.hashing import generation_hash
from grove.plan.update.history import (
    HistoryEntry,
    NoWayBack,
    entry_before,
    entry_of,
    history,
    restart_patch,
    undo_patch,
)
from grove.plan.update.revisions import desired_revision, present_revision
from grove.testing import make

NEVER_READ = "17"


def a_set(image: str = "serve:1", **template: object) -> Manifest:
    roles = [
        make.template("leader", 1, pod={"containers": [{"name": "main", "image": image}]}),
        make.template("worker", 2),
    ]
    manifest = make.cliqueset_manifest("train", roles, replicas=2, template=template)
    manifest["metadata"]["resourceVersion"] = NEVER_READ
    return manifest


def read(manifest: Manifest) -> PodCliqueSet:
    return make.view(PodCliqueSet, manifest)


def recorded(manifest: Manifest, number: int) -> ControllerRevision:
    found = read(manifest)
    return make.view(ControllerRevision, desired_revision(found, present_revision(found, {}), number))


def gang(name: str, follows: Manifest, **marks: str) -> PodGang:
    hash_ = present_revision(read(follows), {}).hash
    manifest = make.gang_manifest(name, {f"{name}-worker": 2}, labels={**labels.owned_by("train"), **marks})
    manifest["metadata"].setdefault("annotations", {})[labels.TEMPLATE_REVISION] = hash_
    return make.view(PodGang, manifest)


def entry(then: Manifest, now: Manifest, number: int = 1) -> HistoryEntry:
    (found,) = history(read(now), [recorded(then, number)], [])
    return found


def patched(manifest: Manifest, operations: list[Manifest]) -> Manifest:
    """The set after a JSON patch of the few operations that are used here."""
    result = copy.deepcopy(manifest)
    for each in operations:
        *path, last = [part.replace("~1", "/") for part in each["path"].split("/")[1:]]
        place: Any = result
        for part in path:
            place = place[int(part) if isinstance(place, list) else part]
        if each["op"] == "remove":
            del place[last]
        else:
            place[last] = each["value"]
    return result


def test_the_history_says_which_template_is_present_who_follows_each_and_which_roles_differ() -> None:
    old, new = a_set("serve:1"), a_set("serve:2")
    gangs = [
        gang("train-0", new),
        gang("train-1", old),
        gang("train-0-group-0", old, **{labels.BASE_POD_GANG: "train-0"}),
    ]
    found = history(read(new), [recorded(new, 2), recorded(old, 1)], gangs)
    assert [(each.number, each.present, each.followers, each.changed) for each in found] == [
        (1, False, 1, ("leader",)),
        (2, True, 1, ()),
    ]


def test_without_a_number_the_one_before_the_present_one_is_meant() -> None:
    first, second, third = a_set("serve:1"), a_set("serve:2"), a_set("serve:3")
    records = [recorded(first, 1), recorded(second, 2), recorded(third, 3)]
    assert entry_before(history(read(third), records, [])).number == 2
    # A template that is refused was never recorded: the one before it is the last that was.
    assert entry_before(history(read(a_set("serve:4")), records, [])).number == 3


def test_what_is_not_recorded_cannot_be_gone_back_to() -> None:
    entries = history(read(a_set()), [recorded(a_set(), 4)], [])
    with pytest.raises(NoWayBack, match="there is no revision 2; recorded are: 4"):
        entry_of(entries, 2)
    with pytest.raises(NoWayBack, match="nothing to undo: no earlier revision is recorded"):
        entry_before(entries)


def test_going_back_changes_pod_templates_and_nothing_else() -> None:
    then = a_set("serve:1", priorityClassName="low")
    then["spec"]["template"]["cliques"][0]["labels"] = {"team": "a"}
    now = a_set("serve:2", priorityClassName="high")
    now["spec"]["replicas"] = 5
    worker = now["spec"]["template"]["cliques"][1]
    worker["annotations"] = {"note": "new"}
    worker["spec"] |= {"replicas": 7, "minAvailable": 3}
    result = patched(now, undo_patch(now, entry(then, now)))
    kept = read(result)
    assert generation_hash(kept.template.cliques) == generation_hash(read(then).template.cliques)
    assert kept.spec.replicas == 5
    assert (kept.template.cliques[1].spec.replicas, kept.template.cliques[1].spec.min_available) == (7, 3)
    assert "annotations" not in result["spec"]["template"]["cliques"][1]
    assert result["spec"]["template"]["priorityClassName"] == "high"


def test_a_record_as_a_patch_brings_no_priority_class_back_and_is_still_the_present_one() -> None:
    before = a_set("serve:1", priorityClassName="low")
    kept = recorded(before, 1)
    assert "priorityClassName" not in kept.data["spec"]["template"]
    told = kept.name.rpartition("-")[2]
    after = {**a_set("serve:1", priorityClassName="high"), "status": {"currentGenerationHash": told}}
    assert present_revision(make.view(PodCliqueSet, after), {kept.name: kept}).hash == told
    other = {**a_set("serve:2", priorityClassName="high"), "status": {"currentGenerationHash": told}}
    assert present_revision(make.view(PodCliqueSet, other), {kept.name: kept}).hash != told


def test_a_role_is_found_by_its_name_wherever_it_stands_now() -> None:
    then, now = a_set("serve:1"), a_set("serve:2")
    now["spec"]["template"]["cliques"].reverse()
    operations = undo_patch(now, entry(then, now))
    assert [each["path"] for each in operations[1:]] == ["/spec/template/cliques/1/spec/podSpec"]


def test_a_role_that_did_not_exist_then_stays() -> None:
    then, now = a_set("serve:1"), a_set("serve:2")
    now["spec"]["template"]["cliques"].append(make.template("cache", 1))
    result = patched(now, undo_patch(now, entry(then, now)))
    assert [each["name"] for each in result["spec"]["template"]["cliques"]] == ["leader", "worker", "cache"]


def test_a_role_that_the_set_no_longer_has_is_named() -> None:
    then, now = a_set("serve:1"), a_set("serve:2")
    del now["spec"]["template"]["cliques"][1]
    with pytest.raises(NoWayBack, match="revision 1 has roles that the set does not have: worker"):
        undo_patch(now, entry(then, now))


def test_a_default_that_somebody_wrote_out_is_nothing_to_undo() -> None:
    then, now = a_set("serve:1"), a_set("serve:1")
    now["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["restartPolicy"] = "Always"
    with pytest.raises(NoWayBack, match="nothing to undo: the set has the pod templates of revision 1"):
        undo_patch(now, entry(then, now))


def test_a_record_that_somebody_has_spoilt_is_refused() -> None:
    now = a_set("serve:2")
    spoilt = make.view(ControllerRevision, {"metadata": {"name": "train-x"}, "data": {}, "revision": 1})
    (found,) = history(read(now), [spoilt], [])
    with pytest.raises(NoWayBack, match="revision 1 cannot be read"):
        undo_patch(now, found)


@pytest.mark.parametrize("roles", [(), ("worker",)], ids=["all roles", "one role"])
def test_a_restart_changes_the_templates_of_the_roles_that_are_meant(roles: tuple[str, ...]) -> None:
    now = a_set()
    now["spec"]["template"]["cliques"][1]["annotations"] = {"note": "kept"}
    result = patched(now, restart_patch(now, roles, "2026-01-01T00:00:00Z"))
    before, after = present_revision(read(now), {}), present_revision(read(result), {})
    changed = {name for name in ("leader", "worker") if before.pod_template(name) != after.pod_template(name)}
    assert changed == ({"leader", "worker"} if not roles else {"worker"})
    assert result["spec"]["template"]["cliques"][1]["annotations"] == {
        "note": "kept",
        labels.RESTARTED_AT: "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    "operations",
    [undo_patch(a_set("b"), entry(a_set("a"), a_set("b"))), restart_patch(a_set(), (), "now")],
    ids=["undo", "restart"],
)
def test_a_patch_conflicts_with_whatever_was_written_meanwhile(operations: list[Manifest]) -> None:
    assert operations[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": NEVER_READ}


def test_the_name_of_a_record_holds_the_hash_of_its_template() -> None:
    record = recorded(a_set(), 1)
    assert record.name == names.template_revision("train", present_revision(read(a_set()), {}).hash)
    assert record.labels == {
        **labels.owned_by("train"),
        labels.COMPONENT: labels.COMPONENT_TEMPLATE_REVISION,
    }
    assert kinds.CONTROLLER_REVISIONS.api_version == "apps/v1"
