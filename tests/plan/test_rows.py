"""A further kind of children is one source of rows: nothing else of the plan knows that it exists."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec
from tests.plan.at_once import at_once
from tests.plan.looks import bare, grown, written

from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.controllers.apply import Batch, first_batch
from grove.meta import Manifest, Object, Resource, owner_reference, resource
from grove.plan.changes import Create, Patch
from grove.plan.children import KINDS, CliqueSetState, Settled, plan_children, sort_children
from grove.plan.children.rows import ChildRow, Owner, all_ours
from grove.testing import make

CONFIG_MAPS: Final = resource("", "v1", "ConfigMap")
ACCOUNTS: Final = resource("", "v1", "ServiceAccount")


class ConfigMap(Object):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class ConfigMaps:
    """One for each replica, owned by the replica's gang; what others add to its data is left alone."""

    resource: Final = CONFIG_MAPS
    view: Final = ConfigMap
    removal: Final = 3
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return None

    def rows(self, replica: int) -> Iterator[ChildRow]:
        cliqueset, revision = self._seen.cliqueset.name, self._seen.built_from(replica)
        gang = self._seen.gangs.get(names.base_gang(cliqueset, replica))
        if gang is not None:
            name, owner = f"{cliqueset}-{replica}-roles", Owner(kinds.GANGS, gang)
            yield ChildRow(self.resource, name, replica, owner, revision, self._build, self._mend)

    def find(self, name: str) -> ChildRow | None:
        replica = self._seen.replica_in(name)
        return (
            next((row for row in self.rows(replica) if row.name == name), None)
            if replica is not None
            else None
        )

    def _build(self, row: ChildRow) -> Manifest:
        metadata = {
            "name": row.name,
            "namespace": "default",
            "labels": labels.owned_by(self._seen.cliqueset.name),
        }
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {role.name: str(role.spec.replicas) for role in row.revision.template.cliques},
        }

    def _mend(self, desired: Manifest, living: Object) -> Manifest:
        assert isinstance(living, ConfigMap)
        return {**desired, "data": {**living.data, **desired["data"]}}


class Accounts:
    """One for the whole set, created with its first replica and kept while the set lives."""

    resource: Final = ACCOUNTS
    view: Final = Object
    removal: Final = 4
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return None

    def rows(self, replica: int) -> Iterator[ChildRow]:
        if replica == 0:
            yield self._seen.row(self.resource, self._seen.cliqueset.name, 0, self._build, all_ours)

    def find(self, name: str) -> ChildRow | None:
        return next((row for row in self.rows(0) if row.name == name), None)

    def _build(self, row: ChildRow) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": row.name, "namespace": "default"},
        }


def look(seen: CliqueSetState, settled: Settled | None = None) -> Batch:
    return at_once(first_batch(plan_children(seen, settled or Settled(), (*KINDS, ConfigMaps, Accounts))))


def stored(cliqueset: PodCliqueSet, config_maps: Mapping[str, ConfigMap] | None = None) -> CliqueSetState:
    """The set with its usual children and those of the further kinds; these ConfigMaps are as given."""
    seen = grown(cliqueset)
    usual = {f"t-{replica}-roles": config_map(seen, replica) for replica in range(cliqueset.spec.replicas)}
    further: Mapping[Resource, Mapping[str, Object]] = {
        CONFIG_MAPS: {**usual, **(config_maps or {})},
        ACCOUNTS: {"t": account(cliqueset)},
    }
    return replace(seen, children={**seen.children, **further})


def config_map(seen: CliqueSetState, replica: int, **fields: object) -> ConfigMap:
    (row,) = ConfigMaps(seen).rows(replica)
    manifest = {**row.manifest(), **fields}
    manifest["metadata"] = {**manifest["metadata"], "uid": f"uid-{row.name}", "resourceVersion": "1"}
    return make.view(ConfigMap, manifest)


def account(cliqueset: PodCliqueSet) -> Object:
    reference = owner_reference(cliqueset, kinds.CLIQUESETS.gvk)
    metadata = {"name": "t", "namespace": "default", "uid": "uid-account", "ownerReferences": [reference]}
    return make.view(Object, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def test_a_further_kind_is_created_with_its_replica_once_its_owner_exists() -> None:
    cliqueset = make.cliqueset("t", {"w": 2}, replicas=2)
    first = look(bare(cliqueset))
    assert written(first) == [
        "create ControllerRevision t",
        "create Service t-0",
        "create PodGang t-0",
        "create PodClique t-0-w",
        "create ServiceAccount t",
        "create Service t-1",
        "create PodGang t-1",
        "create PodClique t-1-w",
    ]
    seen = grown(cliqueset)
    seen = replace(seen, children={**seen.children, ACCOUNTS: {"t": account(cliqueset)}})
    second = look(seen, first.settled)
    assert written(second) == ["create ConfigMap t-0-roles", "create ConfigMap t-1-roles"]
    (made, _) = (change.manifest for change in second.changes if isinstance(change, Create))
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("PodGang", seen.gangs["t-0"].uid)
    assert written(look(stored(cliqueset), second.settled)) == []


def test_a_further_kind_is_mended_by_its_own_rule() -> None:
    cliqueset = make.cliqueset("t", {"w": 2})
    edited = config_map(grown(cliqueset), 0, data={"w": "7", "others": "keep"})
    batch = look(stored(cliqueset, config_maps={"t-0-roles": edited}))
    assert written(batch) == ["patch ConfigMap t-0-roles"]
    (patch,) = batch.changes
    assert isinstance(patch, Patch)
    assert patch.patch == {"data": {"w": "2"}}


def test_an_edited_template_reaches_a_further_kind_through_its_row() -> None:
    seen = stored(make.cliqueset("t", {"w": 2}))
    batch = look(replace(seen, cliqueset=make.cliqueset("t", {"w": 3}, generation=2)))
    patches = {change.key.name: change.patch for change in batch.changes if isinstance(change, Patch)}
    assert patches["t-0-roles"] == {"data": {"w": "3"}}


def test_a_further_kind_goes_with_its_replica_and_what_a_set_has_once_stays() -> None:
    seen = stored(make.cliqueset("t", {"w": 1}, replicas=2))
    one = replace(seen, cliqueset=make.cliqueset("t", {"w": 1}, replicas=1, generation=2))
    assert written(look(one)) == [
        "delete PodGang t-1",
        "delete PodClique t-1-w",
        "delete Service t-1",
        "delete ConfigMap t-1-roles",
    ]
    none = replace(seen, cliqueset=make.cliqueset("t", {"w": 1}, replicas=0, generation=2))
    assert "ServiceAccount" not in " ".join(written(look(none)))


def test_what_is_owned_by_a_child_that_is_not_ours_is_not_removed() -> None:
    seen = stored(make.cliqueset("t", {"w": 1}, replicas=2))
    stray = config_map(seen, 1)
    reference = msgspec.structs.replace(stray.metadata.owner_references[0], uid="another gang of that name")
    metadata = msgspec.structs.replace(stray.metadata, owner_references=(reference,))
    others = {**seen.children[CONFIG_MAPS], stray.name: msgspec.structs.replace(stray, metadata=metadata)}
    smaller = make.cliqueset("t", {"w": 1}, replicas=1, generation=2)
    batch = look(replace(seen, cliqueset=smaller, children={**seen.children, CONFIG_MAPS: others}))
    assert "delete ConfigMap t-1-roles" not in written(batch)


def test_a_child_of_an_earlier_owner_holds_its_name_until_it_is_gone() -> None:
    cliqueset = make.cliqueset("t", {"w": 1})
    before = stored(cliqueset)
    gang = before.gangs["t-0"]
    again = msgspec.structs.replace(gang, metadata=msgspec.structs.replace(gang.metadata, uid="uid-again"))
    found = {**before.children, kinds.GANGS: {"t-0": again}}
    children, taken = sort_children(cliqueset, {each: items.values() for each, items in found.items()})
    assert not children[CONFIG_MAPS]
    assert taken[CONFIG_MAPS] == {"t-0-roles"}
    seen = replace(before, children=children, taken=taken)
    assert written(look(seen)) == []
    assert written(look(replace(seen, taken={}))) == ["create ConfigMap t-0-roles"]
