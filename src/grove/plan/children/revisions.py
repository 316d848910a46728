"""The templates of a set that are kept: the present one, those that replicas follow, some history. Pure."""

from collections.abc import Iterator
from typing import Final

from grove.api import kinds, labels, names
from grove.api.controller_revision import ControllerRevision
from grove.meta import Manifest, Object
from grove.plan.children.rows import ChildRow, all_ours, as_it_is, nothing
from grove.plan.children.state import CliqueSetState
from grove.plan.update.revisions import HISTORY, desired_revision, follows, unused

#: The highest number that the API server takes; one who writes it by hand must not end the counting.
_LAST: Final = 2**63 - 1


class TemplateRevisions:
    """A record of every template that something still follows; it is made before anything follows it.

    The one that is asked for now has the highest number, also if it was asked for before.
    """

    resource: Final = kinds.CONTROLLER_REVISIONS
    view: Final = ControllerRevision
    #: Last: what is left of a replica may still follow one.
    removal: Final = 4
    #: Other controllers record revisions too.
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    @property
    def _name(self) -> str:
        return names.template_revision(self._seen.cliqueset.name, self._seen.present.hash)

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return child.name in self._unused(), self._number() if child.name == self._name else 0

    def rows(self, replica: int) -> Iterator[ChildRow]:
        if replica == 0:
            yield self._row()

    def find(self, name: str) -> ChildRow | None:
        if name == self._name:
            return self._row() if self._seen.replicas else self._kept(name)
        return None if name in self._unused() else self._kept(name)

    def _row(self) -> ChildRow:
        return self._seen.row(self.resource, self._name, 0, self._build, _mend, revision=self._seen.present)

    def _kept(self, name: str) -> ChildRow:
        return self._seen.row(self.resource, name, 0, nothing, as_it_is)

    def _build(self, row: ChildRow) -> Manifest:
        return desired_revision(self._seen.cliqueset, row.revision, self._number())

    def _number(self) -> int:
        others = [
            each.revision
            for name, each in self._seen.recorded.items()
            if name != self._name and each.revision < _LAST
        ]
        own = self._seen.recorded.get(self._name)
        highest = max(others, default=0)
        return own.revision if own is not None and own.revision > highest else highest + 1

    def _unused(self) -> frozenset[str]:
        seen = self._seen
        if len(seen.recorded) <= HISTORY:
            return frozenset()
        children = (seen.gangs, seen.groups, seen.cliques)
        hashes = {follows(child) or "" for found in children for child in found.values()}
        in_use = {names.template_revision(seen.cliqueset.name, each) for each in hashes}
        return unused(seen.recorded.values(), {*in_use, self._name})


def _mend(desired: Manifest, living: Object) -> Manifest:
    """What was recorded never changes."""
    return all_ours({key: value for key, value in desired.items() if key != "data"}, living)
