"""The recorded templates of a set for people: what each is, what differs, how to go back or restart. Pure.

Going back and restarting are edits of the set's pod templates and of nothing else; what follows is an update
like any other.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from grove.api import labels, names
from grove.api.cliqueset import PodCliqueSet, PodCliqueSetTemplate
from grove.api.controller_revision import ControllerRevision
from grove.api.gang import PodGang
from grove.errors import Terminal
from grove.meta import Manifest
from grove.plan.hashing import canonical
from grove.plan.update.revisions import follows, present_revision, recorded_revision, template_then

_CLIQUES: Final = "/spec/template/cliques"


class NoWayBack(Terminal):
    """An earlier template was asked for that does not exist, does not fit the set, or changes nothing."""

    code = "ERR_NO_WAY_BACK"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One recorded template of a set."""

    record: ControllerRevision
    #: Whether it is the template that the set asks for now.
    present: bool
    #: How many replicas follow it.
    followers: int
    #: The roles whose pods differ from those of the present template.
    changed: tuple[str, ...]

    @property
    def number(self) -> int:
        return self.record.revision


def history(
    cliqueset: PodCliqueSet, recorded: Iterable[ControllerRevision], gangs: Iterable[PodGang]
) -> list[HistoryEntry]:
    """The recorded templates of a set, the oldest first."""
    recorded = list(recorded)
    present = present_revision(cliqueset, {each.name: each for each in recorded})
    followed = [
        follows(gang) for gang in gangs if labels.BASE_POD_GANG not in gang.labels and not gang.terminating
    ]
    found = []
    for each in recorded:
        hash_ = each.name.removeprefix(names.template_revision(cliqueset.name, ""))
        then = recorded_revision(cliqueset, each, hash_)
        changed = [
            role.name
            for role in cliqueset.template.cliques
            if then is None or then.pod_template(role.name) != present.pod_template(role.name)
        ]
        found.append(HistoryEntry(each, hash_ == present.hash, followed.count(hash_), tuple(changed)))
    return sorted(found, key=lambda entry: (entry.number, entry.record.name))


def entry_of(entries: Sequence[HistoryEntry], number: int) -> HistoryEntry:
    """The recorded template with this number; raises NoWayBack if there is none."""
    found = next((each for each in entries if each.number == number), None)
    if found is None:
        known = ", ".join(str(each.number) for each in entries) or "none"
        raise NoWayBack(f"there is no revision {number}; recorded are: {known}")
    return found


def entry_before(entries: Sequence[HistoryEntry]) -> HistoryEntry:
    """The last recorded template that is not the present one; raises NoWayBack if there is none."""
    found = [each for each in entries if not each.present]
    if not found:
        raise NoWayBack("there is nothing to undo: no earlier revision is recorded")
    return found[-1]


def undo_patch(cliqueset: Manifest, entry: HistoryEntry) -> list[Manifest]:
    """The JSON patch that puts the pod templates of then back; raises NoWayBack if that cannot be done.

    Replicas, minima, the priority class and everything else that is no part of a pod template stay as they
    are now, and so do roles that did not exist then.
    """
    then = template_then(entry.record)
    if then is None:
        raise NoWayBack(f"revision {entry.number} cannot be read; somebody has written its record")
    template = cliqueset["spec"]["template"]
    there = {role["name"]: index for index, role in enumerate(template["cliques"])}
    gone = [role.name for role in then.cliques if role.name not in there]
    if gone:
        raise NoWayBack(f"revision {entry.number} has roles that the set does not have: {', '.join(gone)}")
    operations: list[Manifest] = []
    for role in then.cliques:
        index = there[role.name]
        now, path = template["cliques"][index], f"{_CLIQUES}/{index}"
        operations += _put_back(f"{path}/labels", now.get("labels"), role.labels, "labels")
        operations += _put_back(
            f"{path}/annotations", now.get("annotations"), role.annotations, "annotations"
        )
        operations += _put_back(
            f"{path}/spec/podSpec", now["spec"].get("podSpec"), role.spec.pod_spec, "spec"
        )
    if not operations:
        raise NoWayBack(f"there is nothing to undo: the set has the pod templates of revision {entry.number}")
    return [*_guard(cliqueset), *operations]


def restart_patch(cliqueset: Manifest, roles: Collection[str], stamp: str) -> list[Manifest]:
    """The JSON patch that changes the pod templates of these roles, or of all, in nothing but a time."""
    operations = _guard(cliqueset)
    for index, role in enumerate(cliqueset["spec"]["template"]["cliques"]):
        if roles and role["name"] not in roles:
            continue
        path = f"{_CLIQUES}/{index}/annotations"
        if role.get("annotations"):
            path, value = f"{path}/{labels.RESTARTED_AT.replace('/', '~1')}", stamp
            operations.append({"op": "add", "path": path, "value": value})
        else:
            operations.append({"op": "add", "path": path, "value": {labels.RESTARTED_AT: stamp}})
    return operations


def pod_templates(template: PodCliqueSetTemplate) -> Manifest:
    """What an update is about, by role: what its pods are made from."""
    found: Manifest = {}
    for role in template.cliques:
        parts = {"labels": role.labels, "annotations": role.annotations, "podSpec": role.spec.pod_spec}
        found[role.name] = {key: value for key, value in parts.items() if value}
    return found


def _put_back(path: str, now: object, then: object, at: str) -> list[Manifest]:
    """The operation that brings a value back; none where both mean the same."""
    if canonical(now or None, (at,)) == canonical(then or None, (at,)):
        return []
    if not then:
        return [{"op": "remove", "path": path}]
    return [{"op": "add", "path": path, "value": then}]


def _guard(cliqueset: Manifest) -> list[Manifest]:
    """Makes a patch conflict with whatever was written since the set was read."""
    version = cliqueset["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
