"""In which order webhooks are asked, and what comes of their answers.

Mutating webhooks are asked one after the other, by the names of their configurations, and each sees what
those before it changed; validating ones are asked together and may only refuse. A webhook that fails refuses
the write, unless its failurePolicy is Ignore. Nothing is read or called while none is configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from grove.embedded.errors import ApiError, Manifest, internal
from grove.embedded.machinery.patch import json_patch
from grove.embedded.resource_type import ResourceType
from grove.embedded.verbs.webhooks.answers import VERSIONS, Answer, Failed, answer_of, failure, refusal
from grove.embedded.verbs.webhooks.calling import Caller
from grove.embedded.verbs.webhooks.matching import Find, Hook, hooks_of, resource_asked_about
from grove.embedded.verbs.webhooks.question import Question

GROUP = "admissionregistration.k8s.io"
MUTATING = (GROUP, "mutatingwebhookconfigurations")
VALIDATING = (GROUP, "validatingwebhookconfigurations")

Decode = Callable[[Question, Manifest], Manifest]
"""What a webhook made of an object, as the kind reads it: without unknown fields, with its defaults."""


class Webhooks:
    """`all_of` and `find` read stored objects; `equivalents` are the kinds that share a kind's objects."""

    def __init__(
        self,
        *,
        any_of: Callable[[tuple[str, str]], bool],
        all_of: Callable[[str, str, str], list[Manifest]],
        find: Find,
        equivalents: Callable[[ResourceType], Sequence[ResourceType]],
        caller: Caller,
        new_uid: Callable[[], str],
    ) -> None:
        self._any_of = any_of
        self._all_of = all_of
        self._find = find
        self._equivalents = equivalents
        self._caller = caller
        self._new_uid = new_uid

    @property
    def active(self) -> bool:
        """Whether any webhook is configured at all."""
        return self._any_of(MUTATING) or self._any_of(VALIDATING)

    async def close(self) -> None:
        await self._caller.close()

    async def admit(self, question: Question) -> Manifest | None:
        """Asks all webhooks about a body that is not stored itself; what the mutating ones made of it."""
        new = await self.mutate(question, lambda _, changed: changed)
        await self.validate(question if new is None else question.about(new))
        return new

    async def mutate(self, question: Question, decode: Decode) -> Manifest | None:
        """The object as the mutating webhooks leave it; the very one that came when none changed it."""
        if not self._any_of(MUTATING) or question.resource.group == GROUP:
            return question.new
        passage = _Passage(self, question, decode)
        hooks = hooks_of(self._all_of(*MUTATING, ""))
        for hook in hooks:
            await passage.ask(hook)
        for hook in hooks:
            # Asked as the second passage goes on: what is changed now concerns those that come later in it.
            if hook.place in passage.again:
                await passage.ask(hook)
        return passage.question.new

    async def validate(self, question: Question) -> None:
        """Raises what the first of the refusing webhooks answers, in the order of their names."""
        if not self._any_of(VALIDATING) or question.resource.group == GROUP:
            return
        calls = [
            self.ask(hook, resource, question, mutating=False)
            for hook, resource in self._matching(hooks_of(self._all_of(*VALIDATING, "")), question)
        ]
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    def _matching(self, hooks: list[Hook], question: Question) -> Iterator[tuple[Hook, ResourceType]]:
        for hook in hooks:
            resource = self.asked_about(hook, question)
            if resource is not None:
                yield hook, resource

    def asked_about(self, hook: Hook, question: Question) -> ResourceType | None:
        return resource_asked_about(hook, question, self._equivalents(question.resource), self._find)

    async def ask(
        self, hook: Hook, resource: ResourceType, question: Question, *, mutating: bool
    ) -> Answer | None:
        """The answer of a webhook that allows the write; None when it failed and may."""
        try:
            answer = await self._answer(hook.webhook, resource, question, mutating=mutating)
        except Failed as why:
            if hook.may_fail:
                return None
            raise failure(hook.name, why) from why
        question.options.warnings.extend(answer.warnings)
        if not answer.allowed:
            raise refusal(hook.name, answer.status)
        return answer

    async def _answer(
        self, webhook: Manifest, resource: ResourceType, question: Question, *, mutating: bool
    ) -> Answer:
        accepted = webhook.get("admissionReviewVersions") or ()
        version = next((found for found in accepted if found in VERSIONS), None)
        if version is None:
            why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise Failed(f"could not create admission objects: {why}")
        uid = self._new_uid()
        body = msgspec.json.encode(question.review(uid, resource, version))
        seconds = webhook.get("timeoutSeconds") or 10
        answer = await self._caller.call(webhook["clientConfig"], body, seconds=seconds)
        return answer_of(answer, uid=uid, version=version, mutating=mutating)


class _Passage:
    """One write on its way through the mutating webhooks.

    A webhook with reinvocationPolicy IfNeeded is asked once more when a later one changed the object.
    """

    def __init__(self, webhooks: Webhooks, question: Question, decode: Decode) -> None:
        self.question = question
        self.again: set[tuple[str, int]] = set()
        self._webhooks = webhooks
        self._decode = decode
        self._asked: set[tuple[str, int]] = set()

    async def ask(self, hook: Hook) -> None:
        resource = self._webhooks.asked_about(hook, self.question)
        if resource is None:
            return
        answer = await self._webhooks.ask(hook, resource, self.question, mutating=True)
        if answer is not None and answer.patch:
            self._patch(hook, resource, answer.patch)
        if hook.webhook.get("reinvocationPolicy") == "IfNeeded":
            self._asked.add(hook.place)

    def _patch(self, hook: Hook, resource: ResourceType, patch: list[Manifest]) -> None:
        question = self.question
        if question.new is None:
            why = "attempted to modify the object, which is not supported for this operation"
            raise internal(f'admission webhook "{hook.name}" {why}')
        shown = question.shown(resource, question.new)
        assert shown is not None
        try:
            changed = self._decode(question, question.taken(resource, json_patch(shown, patch)))
        except ApiError as error:
            raise internal(_why(error)) from error
        if resource.custom and changed == question.new:
            # Of built-in kinds every patch counts as a change, whatever it does.
            return
        self.question = question.about(changed)
        self.again |= self._asked
        self._asked = set()


def _why(error: ApiError) -> str:
    """A patch that does not apply says so in its cause."""
    causes = (error.details or {}).get("causes") or ()
    return str(causes[0].get("message")) if causes else error.message
