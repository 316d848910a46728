"""The kubelets of all nodes: bound pods start, become ready, fail by script, and stop.

Acts on pods that have a node which is not lost. Init containers run first, one after the other. With a
start-up time of zero and no init container that takes time a pod costs exactly one write, from Pending to
Running and Ready. Annotations of a pod script its life:

    embedded.grove.io/startup: 3s       time until its containers run, once its init containers are through
                                        (the default is an option)
    embedded.grove.io/startup-jitter: 5s    up to so much more, different for each pod (an option, too)
    embedded.grove.io/init.NAME: 5s     time that the init container NAME takes (0)
    embedded.grove.io/init-exit-code.NAME: "1"   with which code it ends (0)
    embedded.grove.io/init-fail-count.NAME: "2"  how often it does so before it succeeds (always)
    embedded.grove.io/not-ready: "true" runs, but its probes fail; may be changed while it runs
    embedded.grove.io/fail-after: 10s   its containers end so long after each start
    embedded.grove.io/exit-code: "0"    with which code they end (1)
    embedded.grove.io/fail-count: "1"   how often they do so (always)
    embedded.grove.io/shutdown: 2s      time from deletion to the end, at most its grace period

Grove's own init container runs the program that it is made for; see `waiting`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field

from grove.embedded.actors import pod_status, waiting
from grove.embedded.actors.init_containers import PREFIX, InitContainers, crash_pause
from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.nodes import address_of, is_lost
from grove.embedded.actors.objects import (
    NODES,
    PODS,
    STRATEGIC,
    Key,
    annotations_of,
    condition,
    is_deleting,
    is_stale,
    is_terminal,
    key_of,
    node_of,
    phase_of,
    seconds,
    uid_of,
)
from grove.embedded.actors.work import Work
from grove.embedded.clock import Clock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient
from grove.wait_for.arguments import BadArgument


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    startup_seconds: float = 0.0
    startup_jitter: float = 0.0
    """Up to so many seconds more, different for each pod but the same in each run with the same seed.

    Pods are told apart by their hostnames, where they have one."""
    shutdown_seconds: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class Life:
    """What a kubelet remembers of a pod; times are those of the event loop."""

    uid: str
    address: str
    init: InitContainers
    reported: list[Manifest] = field(default_factory=list)
    """What was last said of the init containers."""
    said: list[str] = field(default_factory=list)
    """What the waiting program has printed."""
    started: float | None = None
    started_at: str = ""
    stopping: float | None = None
    failures: int = 0
    restart: float | None = None
    over: bool = False
    """Its end is reported; the mirror may not have heard of it yet."""


class Kubelet:
    """Runs until cancelled."""

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        mirrors: Mirrors | None = None,
        options: KubeletOptions | None = None,
        wait: waiting.Wait | None = None,
    ) -> None:
        """`wait` runs Grove's waiting program; without, it runs in this process as the kubelet."""
        self._client = client
        self._clock = clock
        self._options = options or KubeletOptions()
        self._waiting = wait or waiting.in_process(waiting.always(client))
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._lives: dict[Key, Life] = {}
        self._on_node: dict[str, dict[Key, None]] = {}
        self._addresses = 0
        self._work: Work[Key] = Work("kubelet", self._step, workers=16)

    async def run(self) -> None:
        try:
            self._nodes = self._mirrors.of(NODES)
            self._pods = self._mirrors.of(PODS)
            await self._mirrors.synced(NODES)
            self._pods.subscribe(self._pod_changed)
            self._nodes.subscribe(self._node_changed)
            await self._work.run()
        finally:
            for life in self._lives.values():
                life.init.stop()
            if self._own_mirrors:
                await self._own_mirrors.close()

    def log_lines(self, namespace: str, name: str, container: str) -> list[str]:
        """What a container of a pod has printed so far, as far as a program runs in it."""
        life = self._lives.get((namespace, name))
        return life.said if life is not None and container == waiting.CONTAINER else []

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new or old
        assert pod is not None
        key, name = key_of(pod), node_of(pod)
        if not name:
            return
        if new is None:
            if (life := self._lives.pop(key, None)) is not None:
                life.init.stop()
            self._work.forget(key)
            self._on_node.get(name, {}).pop(key, None)
            return
        self._on_node.setdefault(name, {})[key] = None
        self._work.add(key)

    def _node_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        node = new or old
        assert node is not None
        if old is not None and new is not None and is_lost(old) == is_lost(new):
            return
        for key in self._on_node.get(node["metadata"]["name"], ()):
            self._work.add(key)

    async def _step(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        node = self._nodes.get(("", node_of(pod))) if pod else None
        if pod is None or node is None or is_lost(node):
            return None
        life = self._life(pod)
        if is_deleting(pod):
            return await self._stop(pod, life)
        if is_terminal(pod):
            return None
        if phase_of(pod) == "Pending":
            return await self._start(pod, node, life)
        return await self._live(pod, node, life)

    def _life(self, pod: Manifest) -> Life:
        life = self._lives.get(key_of(pod))
        if life is None or life.uid != uid_of(pod):
            if life is not None:
                life.init.stop()
            self._addresses += 1
            count = self._addresses
            address = f"10.{64 + count // 62500 % 64}.{count // 250 % 250}.{count % 250 + 1}"
            life = Life(uid_of(pod), address, InitContainers.of(pod))
            self._lives[key_of(pod)] = life
        return life

    async def _start(self, pod: Manifest, node: Manifest, life: Life) -> float | None:
        if life.started is not None:
            # Already reported; the mirror has not heard of it yet and brings the pod back when it has.
            rest = self._until_failure(pod, life)
            return rest if rest is not None and rest > 0 else None
        if life.over:
            return None
        now, stamp = asyncio.get_running_loop().time(), rfc3339(self._clock.now())
        due = life.init.advance(pod, now, stamp, self._program)
        if life.init.finished is not None:
            due = life.init.finished + self._startup(pod) - now
            if due <= 0:
                await self._run_containers(pod, node, life)
                return self._until_failure(pod, life)
        if pod["spec"].get("initContainers"):
            await self._report_init(pod, node, life, stamp)
        return due

    def _program(self, pod: Manifest, container: Manifest) -> Coroutine[object, object, str] | None:
        """What an init container runs; None for one that only takes its time."""
        return self._wait(pod, container) if container["name"] == waiting.CONTAINER else None

    async def _wait(self, pod: Manifest, container: Manifest) -> str:
        """Run the waiting program; its end is looked at, whatever it is."""
        said = self._lives[key_of(pod)].said

        def tell(sentence: str) -> None:
            if said[-1:] != [sentence]:
                said.append(sentence)

        try:
            return await self._waiting(pod, container, tell)
        except BadArgument as problem:
            tell(str(problem))
            raise
        finally:
            self._work.add(key_of(pod))

    async def _report_init(self, pod: Manifest, node: Manifest, life: Life, stamp: str) -> None:
        statuses = life.init.statuses(pod)
        if statuses == life.reported:
            return
        status = pod_status.initializing(
            pod, stamp, statuses, address=life.address, host=address_of(node), failed=life.init.failed
        )
        if await self._report(pod, status):
            life.reported, life.over = statuses, life.init.failed

    async def _run_containers(
        self, pod: Manifest, node: Manifest, life: Life, last: pod_status.Exit | None = None
    ) -> None:
        stamp = rfc3339(self._clock.now())
        status = pod_status.running(
            pod,
            stamp,
            ready=self._wants_ready(pod),
            address=(pod.get("status") or {}).get("podIP") or life.address,
            host=address_of(node),
            init=life.init.statuses(pod),
            restarts=life.failures,
            last=last,
        )
        if not await self._report(pod, status):
            return
        life.started, life.started_at, life.restart = asyncio.get_running_loop().time(), stamp, None

    async def _live(self, pod: Manifest, node: Manifest, life: Life) -> float | None:
        if life.over:
            return None
        now = asyncio.get_running_loop().time()
        if life.restart is not None:
            if now < life.restart:
                return life.restart - now
            last = pod_status.Exit(self._exit_code(pod), life.started_at, rfc3339(self._clock.now()))
            await self._run_containers(pod, node, life, last)
            return self._until_failure(pod, life)
        if life.started is None:
            # It ran before we came: its clock starts now.
            life.started, life.started_at = now, rfc3339(self._clock.now())
        rest = self._until_failure(pod, life)
        if rest is not None and rest <= 0:
            return await self._fail(pod, life)
        await self._report_readiness(pod)
        return rest

    async def _fail(self, pod: Manifest, life: Life) -> float | None:
        stamp = rfc3339(self._clock.now())
        code = self._exit_code(pod)
        end = pod_status.Exit(code, life.started_at, stamp)
        policy = pod["spec"].get("restartPolicy") or "Always"
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            status = pod_status.ended(pod, stamp, end=end, restarts=life.failures)
            life.over = await self._report(pod, status)
            return None
        pause = crash_pause(life.failures)
        life.failures += 1
        life.restart = asyncio.get_running_loop().time() + pause
        await self._report(pod, pod_status.crashed(pod, stamp, end=end, restarts=life.failures, pause=pause))
        return float(pause)

    async def _report_readiness(self, pod: Manifest) -> None:
        wanted = self._wants_ready(pod)
        stamp = rfc3339(self._clock.now())
        fresh = pod_status.readiness(pod, stamp, ready=wanted)
        if any(condition(pod, c["type"]).get("status") != c["status"] for c in fresh):
            await self._report(pod, pod_status.with_readiness(pod, stamp, ready=wanted))

    async def _stop(self, pod: Manifest, life: Life) -> float | None:
        meta = pod["metadata"]
        grace = float(meta.get("deletionGracePeriodSeconds") or 0)
        if grace == 0 and is_terminal(pod):
            # Only finalizers of others keep it; there is nothing left to stop.
            return None
        now = asyncio.get_running_loop().time()
        life.init.stop()
        if life.stopping is None:
            life.stopping = now
        rest = (
            life.stopping + min(self._duration(pod, "shutdown", self._options.shutdown_seconds), grace) - now
        )
        if rest > 0:
            return rest
        if meta.get("finalizers") and not is_terminal(pod):
            stamp = rfc3339(self._clock.now())
            end = pod_status.Exit(0, life.started_at or stamp, stamp)
            await self._report(pod, pod_status.ended(pod, stamp, end=end, restarts=life.failures))
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid_of(pod)}}
        try:
            await self._client.delete(PODS.path(key_of(pod)), options)
        except ApiError as error:
            if not is_stale(error):
                raise
        return None

    async def _report(self, pod: Manifest, status: Manifest) -> bool:
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        try:
            await self._client.patch(PODS.path(key_of(pod), "status"), patch, content_type=STRATEGIC)
        except ApiError as error:
            if not is_stale(error):
                raise
            return False
        return True

    # What the pod's annotations say

    def _startup(self, pod: Manifest) -> float:
        scripted = seconds(annotations_of(pod).get(PREFIX + "startup") or "none")
        wanted = self._options.startup_seconds if scripted is None else scripted
        usual = self._options.startup_jitter if scripted is None else 0.0
        jitter = self._duration(pod, "startup-jitter", usual)
        # Not by name, which is another one in each run on a real control plane.
        who = pod["spec"].get("hostname") or key_of(pod)[1]
        return wanted + random.Random(f"{self._options.seed}/{who}").uniform(0, jitter)

    def _duration(self, pod: Manifest, name: str, default: float) -> float:
        found = seconds(annotations_of(pod).get(PREFIX + name) or "none")
        return default if found is None else found

    def _until_failure(self, pod: Manifest, life: Life) -> float | None:
        """Seconds until the script ends the containers; None when it does not."""
        after = seconds(annotations_of(pod).get(PREFIX + "fail-after") or "none")
        if after is None or life.started is None:
            return None
        count = annotations_of(pod).get(PREFIX + "fail-count") or ""
        if count.isdigit() and life.failures >= int(count):
            return None
        return life.started + after - asyncio.get_running_loop().time()

    def _exit_code(self, pod: Manifest) -> int:
        text = annotations_of(pod).get(PREFIX + "exit-code") or "1"
        return int(text) if text.lstrip("-").isdigit() else 1

    def _wants_ready(self, pod: Manifest) -> bool:
        return annotations_of(pod).get(PREFIX + "not-ready", "").lower() != "true"
