"""YuniKorn (1.8): applications on pods' labels, gangs by placeholders.

The first pod without gates starts its application. If that has task groups, placeholders take the places
first, each as it finds one: what they hold is held, also when the gang never gets complete. Once all of them
have a node, real pods take over their places. An application starts like this only once: later pods are
placed one by one, and after a failure none is placed any more.

Why a request waits it says in events only: which share of a queue is used up, or what nodes with room hold
against it. It never preempts and scores nothing: those are the declared deviations.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    PODS,
    Key,
    Resource,
    is_gated,
    key_of,
    node_of,
)
from grove.embedded.actors.schedulers.desk import run_all
from grove.embedded.actors.schedulers.sessions import SessionOptions, SessionScheduler, is_member
from grove.embedded.actors.schedulers.yunikorn_application import Application, State
from grove.embedded.actors.schedulers.yunikorn_placing import Decision, decide
from grove.embedded.actors.schedulers.yunikorn_rules import (
    NAME,
    REJECTED,
    TIMED_OUT,
    TIMED_OUT_WORDS,
    BadTaskGroups,
    Queues,
    Rejected,
    TaskGroup,
    application_of,
    is_placeholder,
    placeholder,
    policy_of,
    queue_of,
    task_groups,
)
from grove.embedded.actors.schedulers.yunikorn_shares import INFORMATIONAL, Share, free_of, left_of
from grove.embedded.clock import Clock, parse_rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

log = logging.getLogger(__name__)

CONFIG_MAPS = Resource("", "v1", "configmaps", kind="ConfigMap")
CONFIG = "yunikorn-configs"
#: An application without pods is remembered for so long.
COMPLETING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class YuniKornOptions(SessionOptions):
    namespace: str = "yunikorn"
    """Where its configuration is."""
    remembers_failures: bool = True
    """As 1.9 does: the id of a failed application is spent. 1.8 forgets it with the last of its pods."""
    period_seconds: float = 0.1


class YuniKornScheduler(SessionScheduler[str]):
    """Runs until cancelled."""

    name = NAME
    refused = "PodUnschedulable"

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        mirrors: Mirrors | None = None,
        options: YuniKornOptions | None = None,
    ) -> None:
        self._options = options or YuniKornOptions()
        super().__init__(client, clock, mirrors=mirrors, options=self._options)
        self._members: dict[str, dict[Key, None]] = {}
        self._applications: dict[str, Application] = {}
        self._queues = Queues()
        self._started = 0

    async def _open(self) -> None:
        self._mirrors.of(CONFIG_MAPS).subscribe(self._config_changed)
        await self._mirrors.synced(CONFIG_MAPS)
        await super()._open()

    # What wakes whom

    def _config_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if key_of(new or old or {}) != (self._options.namespace, CONFIG):
            return
        try:
            self._queues = Queues.read(((new or {}).get("data") or {}).get("queues.yaml") or "")
        except yaml.YAMLError:
            # Like the real one: what it understood last goes on to hold.
            return
        # A queue may be larger now.
        self._room()

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        for pod, is_new in ((old, False), (new, True)):
            if pod is None or pod["spec"].get("schedulerName") != NAME:
                continue
            name = application_of(pod)
            members = self._members.setdefault(name, {})
            if is_new and is_member(pod) and not is_gated(pod):
                members.setdefault(key_of(pod))
            elif not is_new and new is not None and application_of(new) == name:
                continue
            else:
                members.pop(key_of(pod), None)
            if not members:
                del self._members[name]
            if not (is_new and node_of(pod) and old is not None and node_of(old)):
                self._activate(name)

    def _remind(self, name: str, what: str, seconds: float) -> None:
        self._later((name, what), seconds, functools.partial(self._due, name, what))

    def _due(self, name: str, what: str) -> None:
        application = self._applications.get(name)
        if application is not None and what == "timeout":
            application.expired = True
        if application is not None and what == "complete" and name not in self._members:
            del self._applications[name]
        self._activate(name)

    # Deciding

    async def _cycle(self) -> None:
        while self._active:
            # First come, first served, as a queue of the policy fifo does it.
            order = sorted(self._active, key=lambda name: (self._rank(name), name))
            for name in order:
                self._active.pop(name, None)
                try:
                    await self._look(name)
                except Exception:
                    # One application that we cannot read must not stop the others.
                    log.exception("cannot decide", extra={"application": name})

    def _rank(self, name: str) -> int:
        found = self._applications.get(name)
        return found.rank if found is not None else self._started + 1

    async def _look(self, name: str) -> None:
        pods = self._pods(name)
        application = self._applications.get(name)
        if not pods:
            self._end(application)
            return
        self._never((name, "complete"))
        if application is None:
            application = await self._start(name, pods)
            pods = self._pods(name)
        if application is None or application.state is State.FAILED:
            return
        now = self._clock.now().timestamp()
        decision = decide(application, pods, self._desk, now, self._share(application))
        self._wait(application, decision)
        await self._write(application, decision)

    def _pods(self, name: str) -> list[Manifest]:
        found = [self._desk.pods.get(key) for key in self._members.get(name, ())]
        return [pod for pod in found if pod is not None]

    def _share(self, application: Application) -> Share:
        """What the application's queue has left, of its own share and of all nodes together."""
        limits = self._queues.limits(application.path)
        used: dict[str, Counter[str]] = {path: Counter() for path in limits}
        for other in self._applications.values() if limits else ():
            above = [path for path in used if f"{other.path}.".startswith(f"{path}.")]
            for pod in self._pods(other.name) if above else ():
                if (booked := self._desk.ledger.booking(key_of(pod))) is not None:
                    for path in above:
                        used[path].update(booked[1].demand)
        return Share(application.path, free_of(self._desk.ledger), left_of(limits, used))

    def _end(self, application: Application | None) -> None:
        """No pod is left: the application is over in a while, unless it failed and is remembered."""
        if application is None:
            return
        if application.state is not State.FAILED:
            self._remind(application.name, "complete", COMPLETING_SECONDS)
        elif not self._options.remembers_failures:
            del self._applications[application.name]

    def _wait(self, application: Application, decision: Decision) -> None:
        if decision.outcome.waits:
            self._park(application.name)
        if decision.arm_timeout:
            left = application.deadline - self._clock.now().timestamp()
            self._remind(application.name, "timeout", max(left, 0.001))

    # An application begins

    async def _start(self, name: str, pods: Sequence[Manifest]) -> Application | None:
        real = [pod for pod in pods if not is_placeholder(pod)]
        if not real:
            # Left from before a restart; the garbage collector takes them with their owner.
            return None
        first, policy = real[0], policy_of(real[0])
        groups = await self._groups(first)
        created = parse_rfc3339(first["metadata"]["creationTimestamp"]).timestamp()
        self._started += 1
        application = Application(
            name, first, groups, queue_of(first), self._started, created + policy.seconds, hard=policy.hard
        )
        self._applications[name] = application
        placed = any(node_of(pod) for pod in real)
        try:
            application.path = self._queues.place(name, application.queue, first["metadata"]["namespace"])
            if groups and not placed:
                self._queues.refuse_gang(name, application.path, groups)
        except Rejected as refusal:
            if not placed:
                await self._fail(application, pods, REJECTED, str(refusal))
                return application
        application.state = State.RESERVING if groups and not placed else State.RUNNING
        if application.state is State.RESERVING:
            await self._reserve(application, pods)
        return application

    async def _groups(self, pod: Manifest) -> tuple[TaskGroup, ...]:
        try:
            return task_groups(pod)
        except BadTaskGroups as problem:
            await self._desk.events.write(pod, "GangScheduling", str(problem), kind="Warning")
            return ()

    async def _reserve(self, application: Application, pods: Sequence[Manifest]) -> None:
        """Create the placeholders that are missing; if one cannot be, there will be no gang."""
        there = application.by_group(pod for pod in pods if is_placeholder(pod))
        name, first = application.name, application.originator
        await self._tell(application, f"Application {name} creating placeholders")
        try:
            for group in application.groups:
                for index in range(len(there.get(group.name, ())), group.minimum):
                    pod = placeholder(name, group, index, originator=first, queue=application.queue)
                    await self._client.create(PODS.collection(pod["metadata"]["namespace"]), pod)
        except (ApiError, OSError, TimeoutError):
            application.give_up_gang()
            await self._drop(self._placeholders(name))
            text = f"Application {name} fall back to normal scheduling"
            await self._desk.events.write(first, "GangScheduling", text, kind="Warning")

    def _placeholders(self, name: str) -> list[Manifest]:
        return [pod for pod in self._pods(name) if is_placeholder(pod)]

    # Writing

    async def _write(self, application: Application, decision: Decision) -> None:
        if decision.started:
            told = f"Application {application.name} all placeholders are allocated."
            await self._tell(application, f"{told} Transitioning to running state.")
        if decision.failed:
            real = [pod for pod in self._pods(application.name) if not is_placeholder(pod)]
            await self._fail(application, real, TIMED_OUT, TIMED_OUT_WORDS)
        await self._drop(decision.dropped)
        lost = await self._desk.write(decision.outcome)
        for pod, text in decision.told:
            await self._desk.events.write_series(self._desk.stored(pod), INFORMATIONAL, text)
        if lost:
            self._retry(application.name)

    async def _fail(self, application: Application, pods: Sequence[Manifest], reason: str, text: str) -> None:
        application.state = State.FAILED
        # The shim passes on what stands between the first two colons of `ApplicationRejected: ...`.
        words = f" {text.split(':')[0]}" if reason == REJECTED else text
        unplaced = [pod for pod in pods if not node_of(pod) and not is_placeholder(pod)]
        status = {"phase": "Failed", "reason": reason, "message": words}
        await run_all([functools.partial(self._desk.patch_status, PODS, pod, status) for pod in unplaced])
        told = f"Application {application.name} scheduling failed, reason: {reason}"
        for pod in unplaced:
            await self._desk.events.write(pod, "ApplicationFailed", told, kind="Warning")
        await self._drop(self._placeholders(application.name))

    async def _drop(self, placeholders: Sequence[Manifest]) -> None:
        async def one(pod: Manifest) -> None:
            try:
                await self._client.delete(PODS.path(key_of(pod)), {"gracePeriodSeconds": 0})
            except (ApiError, OSError, TimeoutError):
                # It is gone already, or will be with its owner.
                return

        await run_all([functools.partial(one, pod) for pod in placeholders])

    async def _tell(self, application: Application, text: str) -> None:
        await self._desk.events.write(application.originator, "GangScheduling", text)
