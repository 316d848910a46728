"""The states of a set's pod templates: the present one, and those that were recorded. Pure.

What is recorded are the roles of the set as they were when a template was first asked for. A replica that
follows an earlier template takes its pod templates from there; everything else (minima, topology, scaling
groups, the priority class) is as the set says now.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import msgspec

from grove.api import kinds, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet, PodCliqueSetTemplate, PodCliqueTemplate
from grove.api.controller_revision import ControllerRevision
from grove.meta import Manifest, Object
from grove.plan.environment import without_group_size
from grove.plan.hashing import canonical, generation_hash, template_hash
from grove.plan.mirroring import outdated

#: How many templates that nothing follows any more are kept, as for Deployments and StatefulSets.
HISTORY: Final = 10
_POD_SPEC: Final = ("spec",)


@dataclass(frozen=True)
class TemplateRevision:
    """One state of a set's template, and the hash of its pod templates."""

    template: PodCliqueSetTemplate
    hash: str = ""
    #: Whether it is known what its pod templates were; if not, cliques that follow it stay as they are.
    known: bool = True

    def role(self, name: str) -> PodCliqueTemplate | None:
        """The role of this name."""
        return self._roles.get(name)

    def pod_template(self, role: str) -> str:
        """The hash of one role's pod template; empty for a role that it does not have."""
        return self._hashes.get(role, "")

    @cached_property
    def _roles(self) -> Mapping[str, PodCliqueTemplate]:
        return {role.name: role for role in self.template.cliques}

    @cached_property
    def _hashes(self) -> Mapping[str, str]:
        priority = self.template.priority_class_name
        return {role.name: template_hash(role, priority_class=priority) for role in self.template.cliques}


def present_revision(cliqueset: PodCliqueSet, recorded: Mapping[str, ControllerRevision]) -> TemplateRevision:
    """The template that a set asks for now; `recorded` are the earlier ones, by the names of their records.

    No pod is replaced for another priority class of the set, so that it makes no other template: the set goes
    on telling of the one that it had. Nor does a release make another template by computing another hash.
    """
    template, told = cliqueset.template, cliqueset.status.current_generation_hash or ""
    found = generation_hash(template.cliques, priority_class=template.priority_class_name)
    if told == found:
        return TemplateRevision(template, found)
    named = partial(names.template_revision, cliqueset.name)
    # Those that are recorded are looked through only for a template that is new.
    others = sorted(recorded) if named(found) not in recorded else ()
    meaning = generation_hash(template.cliques) if recorded else ""
    for name in filter(recorded.__contains__, (*([named(told)] if told else ()), *others)):
        then = template_then(recorded[name])
        if then is not None and generation_hash(then.cliques) == meaning:
            return TemplateRevision(template, name.removeprefix(named("")))
    return TemplateRevision(template, found)


def template_then(recorded: ControllerRevision) -> PodCliqueSetTemplate | None:
    """The roles as they were recorded; None if the record is unreadable."""
    try:
        return msgspec.convert(recorded.data["spec"]["template"], PodCliqueSetTemplate, strict=False)
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None


def recorded_revision(
    cliqueset: PodCliqueSet, recorded: ControllerRevision, hash_: str
) -> TemplateRevision | None:
    """A recorded template: the set's present one with the pod templates of then; None if it is unreadable."""
    then = template_then(recorded)
    if then is None:
        return None
    before = {role.name: role for role in then.cliques}
    cliques = tuple(
        _with_pod_template(role, before[role.name]) if role.name in before else role
        for role in cliqueset.template.cliques
    )
    return TemplateRevision(msgspec.structs.replace(cliqueset.template, cliques=cliques), hash_)


def is_named_for(recorded: ControllerRevision, hash_: str, *, priority_class: str) -> bool:
    """Whether a record holds the pod templates whose hash it is named for.

    An earlier release may have made the hash in another way, or the set may have had another priority class:
    a record that is not named for what it holds need not be forged.
    """
    then = template_then(recorded)
    return then is not None and any(
        generation_hash(then.cliques, priority_class=each) == hash_ for each in {priority_class, ""}
    )


def _with_pod_template(role: PodCliqueTemplate, then: PodCliqueTemplate) -> PodCliqueTemplate:
    spec = msgspec.structs.replace(role.spec, pod_spec=then.spec.pod_spec)
    return msgspec.structs.replace(role, labels=then.labels, annotations=then.annotations, spec=spec)


def desired_revision(cliqueset: PodCliqueSet, revision: TemplateRevision, number: int) -> Manifest:
    """The record of a template. As a merge patch of the set its data brings the roles back as they were.

    The priority class of the set is no part of it, so that such a patch does not bring an old one back.
    """
    template = revision.template
    roles = [_said(msgspec.to_builtins(role)) for role in template.cliques]
    return {
        "apiVersion": kinds.CONTROLLER_REVISIONS.api_version,
        "kind": kinds.CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": names.template_revision(cliqueset.name, revision.hash),
            "namespace": cliqueset.namespace,
            "labels": {
                **labels.owned_by(cliqueset.name),
                labels.COMPONENT: labels.COMPONENT_TEMPLATE_REVISION,
            },
        },
        "data": {"spec": {"template": {"cliques": roles}}},
        "revision": number,
    }


def _said(value: Any) -> Any:
    """A role without the fields that say nothing; its pod spec as it was written."""
    return {
        key: _said(item) if key == "spec" else item
        for key, item in value.items()
        if item not in (None, [], (), {}, "")
    }


def follows(child: Object) -> str | None:
    """The hash of the templates that a child of a set follows; None for one that somebody else made."""
    return child.metadata.annotations.get(labels.TEMPLATE_REVISION)


def pod_template_of(child: Object) -> str:
    """The label by which the pods of one template are told from those of another; it means nothing else."""
    return child.metadata.labels.get(labels.POD_TEMPLATE_HASH, "")


def means_the_same(desired: Manifest, living: PodClique) -> bool:
    """Whether a clique has the pod template that it should have, whoever wrote it and however.

    Labels and annotations that others gave it do not count; one that it has from its set, and that its set
    no longer has, does.
    """
    metadata, gone = desired["metadata"], outdated(desired, living)
    for field, entries in (("labels", living.labels), ("annotations", living.annotations)):
        wanted = {key: value for key, value in metadata[field].items() if of_a_template(key)}
        if any(entries.get(key) != value for key, value in wanted.items()):
            return False
        if any(map(of_a_template, gone[field])):
            return False
    wanted, have = (without_group_size(each) for each in (desired["spec"]["podSpec"], living.spec.pod_spec))
    return bool(canonical(wanted, _POD_SPEC) == canonical(have, _POD_SPEC))


def of_a_template(key: str) -> bool:
    """Whether a label or annotation of a clique comes from its pod template."""
    if key == labels.RESTARTED_AT:
        return True
    return not key.startswith(labels.GROVE_PREFIX) and key not in labels.STANDARD


def unused(
    recorded: Iterable[ControllerRevision], in_use: Iterable[str], most: int = HISTORY
) -> frozenset[str]:
    """The names of the recorded templates that need not be kept: nothing follows them, and they are old."""
    kept = set(in_use)
    idle = sorted((each for each in recorded if each.name not in kept), key=lambda each: -each.revision)
    return frozenset(each.name for each in idle[most:])
