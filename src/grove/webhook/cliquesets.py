"""Answers about sets: fills in defaults, and refuses what the operator would not carry out.

One judgement: whatever `admission.judge` refuses is refused here, and what the API server says to the pod
templates. An update that takes nothing but replicas or metadata away from a set is refused only for what it
makes wrong itself, so that a set that has become invalid can be scaled down, released and deleted.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec

from grove.admission import Judgement, default, judge, understand
from grove.admission.losses import losses_of
from grove.admission.updates import forbidden_edits, only_less
from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode, means_the_same
from grove.errors import InvalidInput
from grove.meta import Key, Manifest
from grove.plan.children import CliqueSetState
from grove.plan.domains import moved_domains
from grove.plan.edits import impossible_edits
from grove.plan.hashing import template_hash
from grove.webhook.dry_runs import DryRuns, candidates
from grove.webhook.patching import patch_between
from grove.webhook.review import ALLOWED, CREATE, UPDATE, Answer, Request
from grove.webhook.surroundings import Surroundings

#: What a set names (a topology, a queue) may have been created a moment ago, and the cache not show it yet.
THINK_AGAIN_SECONDS: Final = (0.1, 0.4)

_SCALE: Final = "scale"


@dataclass(frozen=True)
class _Proposal:
    """A set as it would be stored, and as it is."""

    new: PodCliqueSet
    old: PodCliqueSet | None = None

    @cached_property
    def only_less(self) -> bool:
        return self.old is not None and only_less(self.old, self.new)

    @property
    def same_gangs(self) -> bool:
        """Whether every gang and pod would be as before, however many: nothing new can be said of them."""
        old, new = self.old, self.new
        return old is not None and _marks(old) == _marks(new) and means_the_same(old.template, new.template)


def default_cliqueset(request: Request) -> Answer:
    """A patch with what the set leaves out. What cannot be read is left to the API server to refuse."""
    if request.object is None or request.operation not in (CREATE, UPDATE):
        return ALLOWED
    try:
        decode(request.object, PodCliqueSet)
    except InvalidInput:
        return ALLOWED
    filled = default(request.object)
    if request.operation == UPDATE and (old := _read(request.old_object)) is not None:
        _keep_minima(request.object, filled, old)
    before, after = ({"spec": each.get("spec")} for each in (request.object, filled))
    return Answer(patch=tuple(patch_between(before, after)))


def _keep_minima(written: Manifest, filled: Manifest, old: PodCliqueSet) -> None:
    """A minimum that an update leaves out stays what it was: it was decided when the set was created."""
    before = {role.name: role.spec.min_available for role in old.template.cliques}
    for role, wrote in zip(_roles(filled), _roles(written), strict=True):
        if (wrote.get("spec") or {}).get("minAvailable") is not None or role.get("name") not in before:
            continue
        minimum = before[role["name"]]
        if minimum is None:
            role["spec"].pop("minAvailable", None)
        else:
            role["spec"]["minAvailable"] = minimum


def _roles(manifest: Manifest) -> list[Manifest]:
    return ((manifest.get("spec") or {}).get("template") or {}).get("cliques") or []


class CliqueSetReviews:
    """Says whether a set may be stored."""

    def __init__(self, known: Surroundings, dry_runs: DryRuns) -> None:
        self._known = known
        self._dry_runs = dry_runs

    async def validate(self, request: Request) -> Answer:
        """Whether a set may be created, updated or scaled like this."""
        if request.object is None or request.operation not in (CREATE, UPDATE):
            return ALLOWED
        try:
            proposal = self._scaled(request) if request.sub_resource == _SCALE else _proposed(request)
        except InvalidInput as error:
            return Answer(error.errors)
        if proposal is None or proposal.new.terminating or _is_same(proposal):
            return ALLOWED
        return await self._judged(proposal)

    def _scaled(self, request: Request) -> _Proposal | None:
        """The set with the replicas of a Scale; None where it has no more than before."""
        old = self._known.cliqueset(Key(request.namespace, request.name))
        wanted = ((request.object or {}).get("spec") or {}).get("replicas") or 0
        if old is None or not isinstance(wanted, int) or wanted <= old.spec.replicas:
            return None
        spec = msgspec.structs.replace(old.spec, replicas=wanted)
        return _Proposal(msgspec.structs.replace(old, spec=spec), old)

    async def _judged(self, proposal: _Proposal) -> Answer:
        judgement = await self._thought_over(proposal)
        if judgement.refused:
            return self._refusal(proposal, judgement)
        return await self._translated(proposal, judgement)

    async def _thought_over(self, proposal: _Proposal) -> Judgement:
        """The judgement; one that depends on other objects is made again before anything is refused."""
        understood = understand(proposal.new, new=proposal.old is None)
        here = self._known.here
        judgement = self._with_edits(proposal, judge(understood, here(proposal.new)))
        for seconds in THINK_AGAIN_SECONDS:
            if not judgement.refused or understood.errors or proposal.only_less:
                break
            await asyncio.sleep(seconds)
            judgement = self._with_edits(proposal, judge(understood, here(proposal.new)))
        return judgement

    def _with_edits(self, proposal: _Proposal, judgement: Judgement) -> Judgement:
        """The judgement with what cannot be changed of the set that is stored."""
        old, new = proposal.old, proposal.new
        if old is None or judgement.backend is None:
            # Of a set that is refused anyway only what stands in it is compared.
            edits = forbidden_edits(old, new) if old is not None else []
            return replace(judgement, refused=(*judgement.refused, *edits))
        cliques = self._known.cliques_of(old)
        edits = [
            *forbidden_edits(old, new),
            *impossible_edits(new, CliqueSetState(new).layout(0), cliques, {}, ()),
            *moved_domains(new, cliques.values()),
        ]
        return replace(judgement, refused=(*judgement.refused, *edits)) if edits else judgement

    def _refusal(self, proposal: _Proposal, judgement: Judgement) -> Answer:
        if not proposal.only_less or proposal.old is None:
            return Answer(judgement.refused)
        before = judge(understand(proposal.old), self._known.here(proposal.old)).refused
        known = {error.field for error in before}
        worse = [error for error in judgement.refused if error.field not in known]
        left = [f"not accepted, as before: {error}" for error in judgement.refused if error.field in known]
        return Answer(worse, left)

    async def _translated(self, proposal: _Proposal, judgement: Judgement) -> Answer:
        """What the scheduler and the API server say to an accepted set."""
        cliqueset, backend, known = judgement.cliqueset, judgement.backend, self._known
        assert backend is not None, "a set that is not refused has a backend"
        warnings = [*map(str, judgement.notices)]
        if judgement.levels is not None and judgement.levels.status != "False":
            warnings.append(judgement.levels.message)
        if proposal.same_gangs:
            return Answer(warnings=warnings)
        context, binding = known.schedulers.context(backend, cliqueset), known.usable_binding(cliqueset)
        references = known.schedulers.registry.topology_references(binding) if binding else {}
        lost = losses_of(cliqueset, backend, context, binding, references)
        warnings += lost.notices
        if proposal.only_less:
            return Answer(warnings=(*map(str, lost.errors), *warnings))

        tried = await self._dry_runs.tried(
            candidates(cliqueset, backend, context, binding, _changed_roles(proposal))
        )
        return Answer((*lost.errors, *tried.errors), (*warnings, *tried.notices))


def _proposed(request: Request) -> _Proposal:
    """Raises InvalidInput where the new object cannot be read."""
    assert request.object is not None
    metadata = {**(request.object.get("metadata") or {}), "namespace": request.namespace or "default"}
    new = decode({**request.object, "metadata": metadata}, PodCliqueSet)
    return _Proposal(new, _read(request.old_object) if request.operation == UPDATE else None)


def _read(stored: Manifest | None) -> PodCliqueSet | None:
    """A set that is stored; one that cannot be read is as good as none."""
    try:
        return decode(stored, PodCliqueSet) if stored is not None else None
    except InvalidInput:
        return None


def _is_same(proposal: _Proposal) -> bool:
    """Whether an update changes nothing that is judged, for example a finalizer."""
    old, new = proposal.old, proposal.new
    return old is not None and _marks(old) == _marks(new) and means_the_same(old.spec, new.spec)


def _marks(cliqueset: PodCliqueSet) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return cliqueset.labels, cliqueset.annotations


def _changed_roles(proposal: _Proposal) -> Sequence[int]:
    """The roles whose pods would be others than those of the stored set."""
    new, old = proposal.new.template, proposal.old
    if old is None:
        return range(len(new.cliques))
    priority = old.template.priority_class_name
    known = {(role.name, template_hash(role, priority_class=priority)) for role in old.template.cliques}
    return [
        index
        for index, role in enumerate(new.cliques)
        if (role.name, template_hash(role, priority_class=new.priority_class_name)) not in known
    ]
