"""`python -m bench.webhook`: how long an API server waits for the webhooks, at a fixed rate of requests.

python -m bench.webhook                 # 200 requests a second for 20 seconds, of each kind
python -m bench.webhook --rate 400 --seconds 10 --control-plane real

The operator is a process of its own and speaks HTTPS with a certificate that it made itself. Requests are
sent when they are due, whether earlier ones are answered or not: what waits in a queue counts as waiting.
Fails where p99 exceeds the promise.

Templates that nobody tried before need a dry run for each role, and what the control plane takes for those
is not the webhooks' time: the same dry runs are measured without webhooks beside them, and both are shown.
They come at a rate of their own, for a control plane that does not answer three times as many dry runs a
second as there are sets; above that a queue is measured and nothing else.
"""

import asyncio
import base64
import json
import math
import ssl
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import aiohttp
import typer

from bench.arena import Arena, arena, free_port, within
from bench.observer import BenchFailed
from bench.planes import Kind, Plane
from bench.usage import usage_of
from grove.api import kinds
from grove.cli.loop import run_loop
from grove.meta import Key, Manifest, resource
from grove.webhook.registrations import DEFAULT_CLIQUESET, VALIDATE_CLIQUESET

#: Milliseconds within which 99 of 100 requests are answered.
PROMISED: Final = 20.0
SECRETS: Final = resource("", "v1", "Secret")
_NAMESPACE: Final = "default"
_SECRET: Final = "grove-webhook-server-cert"
_SETTINGS: Final = "  webhooks: {{enabled: true, bindAddress: 127.0.0.1, port: {port}}}\n"
_START_SECONDS: Final = 60.0
_ROLES: Final = ("front", "leader", "worker")

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Taken:
    """How long the requests of one kind took, in milliseconds."""

    what: str
    milliseconds: Sequence[float]
    #: What the operator's process used of a core for each, which a busy machine changes little.
    cpu: float = 0.0

    def quantile(self, share: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]

    def __str__(self) -> str:
        p50, p99, worst = self.quantile(0.5), self.quantile(0.99), max(self.milliseconds)
        count = len(self.milliseconds)
        times = f"{p50:>9.1f} {p99:>9.1f} {worst:>9.1f} {self.cpu:>7.2f}"
        return f"{self.what:<44} {count:>6} {times} {p99 / PROMISED:>8.2f}"


def pod_spec(role: str, version: int = 1) -> Manifest:
    return {"containers": [{"name": "main", "image": f"example/{role}:{version}"}]}


def cliqueset(replicas: int = 1, version: int = 1) -> Manifest:
    """A set of a leader and workers in a scaling group, and a front end."""
    roles = [
        {"name": name, "spec": {"roleName": name, "replicas": 2, "podSpec": pod_spec(name, version)}}
        for name in _ROLES
    ]
    group = {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 1}
    return {
        "apiVersion": kinds.CLIQUESETS.api_version,
        "kind": kinds.CLIQUESETS.kind,
        "metadata": {"name": "llm", "namespace": _NAMESPACE},
        "spec": {"replicas": replicas, "template": {"cliques": roles, "podCliqueScalingGroups": [group]}},
    }


def review(new: Manifest, old: Manifest | None = None) -> bytes:
    """What an API server posts."""
    gvk = kinds.CLIQUESETS.gvk
    request = {
        "uid": "u",
        "kind": gvk._asdict(),
        "resource": {"group": gvk.group, "version": gvk.version, "resource": kinds.CLIQUESETS.plural},
        "name": "llm",
        "namespace": _NAMESPACE,
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "alice"},
        "object": new,
        "oldObject": old,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def wrong() -> Manifest:
    """A set with three mistakes."""
    found = cliqueset(-1)
    found["spec"]["template"]["terminationDelay"] = "soon"
    found["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 9
    return found


#: By name, the path and the body.
REQUESTS: Final = {
    "defaults of a new set": (DEFAULT_CLIQUESET, review(cliqueset())),
    "a set that is refused": (VALIDATE_CLIQUESET, review(wrong())),
    "an edit of replicas": (VALIDATE_CLIQUESET, review(cliqueset(3), cliqueset(2))),
    "a new set of three roles, tried before": (VALIDATE_CLIQUESET, review(cliqueset())),
}
_NEW: Final = "a new set of three roles, never tried"
_ALONE: Final = "its three dry runs without a webhook"


@dataclass(frozen=True, slots=True)
class _Server:
    """Where the webhooks are, and how to trust them."""

    session: aiohttp.ClientSession
    url: str
    name: str
    trusted: ssl.SSLContext

    async def post(self, path: str, body: bytes, due: float) -> float:
        """Milliseconds from when the request was due to its answer."""
        async with self.session.post(
            self.url + path,
            data=body,
            headers={"Content-Type": "application/json"},
            ssl=self.trusted,
            server_hostname=self.name,
        ) as answer:
            said = await answer.read()
            if answer.status != 200:
                raise BenchFailed(f"{path} answered {answer.status}: {said[:200].decode()}")
        return (time.perf_counter() - due) * 1000


Send = Callable[[int, float], Coroutine[None, None, float]]


async def measure(what: str, rate: float, seconds: float, send: Send) -> Taken:
    """Requests of one kind at a fixed rate; each is told its number and when it was due."""
    tasks, started = [], time.perf_counter()
    for number in range(int(rate * seconds)):
        due = started + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(send(number, max(due, started))))
    return Taken(what, await asyncio.gather(*tasks))


@dataclass(frozen=True, slots=True)
class _Sending:
    """The kinds of requests as they are sent."""

    server: _Server
    place: Arena

    def known(self, what: str) -> Send:
        path, body = REQUESTS[what]
        return lambda _, due: self.server.post(path, body, due)

    async def new(self, number: int, due: float) -> float:
        """A set whose templates nobody has seen."""
        body = review(cliqueset(version=1000 + number))
        return await self.server.post(VALIDATE_CLIQUESET, body, due)

    async def alone(self, number: int, due: float) -> float:
        """What the control plane takes for the pods of such a set."""
        pods: list[Manifest] = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"trial-{number}-{role}", "namespace": _NAMESPACE},
                "spec": pod_spec(role, number),
            }
            for role in _ROLES
        ]
        client = self.place.client
        await asyncio.gather(*(client.create(kinds.PODS, pod, dry_run=True, strict=True) for pod in pods))
        return (time.perf_counter() - due) * 1000


async def _authority(place: Arena) -> ssl.SSLContext:
    found = await place.client.get(SECRETS, Key(place.home, _SECRET), type=dict)
    return ssl.create_default_context(cadata=base64.b64decode(found["data"]["ca.crt"]).decode())


async def take(plane: Plane, rate: float, new_rate: float, seconds: float) -> list[Taken]:
    """All kinds of requests, one after the other, on one operator."""
    port = free_port()
    async with arena(plane) as place, place.operator(settings=_SETTINGS.format(port=port)) as operator:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            name = f"grove-operator.{place.home}.svc"
            server = _Server(session, f"https://127.0.0.1:{port}", name, await _authority(place))
            sending, children = _Sending(server, place), (operator, *place.children)
            kinds_of_requests: list[tuple[str, float, Send]] = [
                *((what, rate, sending.known(what)) for what in REQUESTS),
                (_ALONE, new_rate, sending.alone),
                (_NEW, new_rate, sending.new),
            ]
            taken = []
            for what, pace, send in kinds_of_requests:
                if what in REQUESTS:
                    await measure(what, pace, 1.0, send)
                work = measure(what, pace, seconds, send)
                limit = _START_SECONDS + 3 * seconds
                before = usage_of(operator.pid).cpu
                found = await within(limit, work, unless=children, hope=lambda: "not all answered")
                used = (usage_of(operator.pid).cpu - before) * 1000
                taken.append(replace(found, cpu=used / len(found.milliseconds)))
    return taken


def _table(taken: Sequence[Taken]) -> Iterator[str]:
    yield f"{'':<44} {'count':>6} {'p50 ms':>9} {'p99 ms':>9} {'worst':>9} {'CPU ms':>7} {'of 20 ms':>8}"
    yield from map(str, taken)


@app.command()
def main(
    rate: Annotated[float, typer.Option(help="Requests a second.")] = 200.0,
    new_rate: Annotated[float, typer.Option(help="Sets with new templates a second.")] = 200.0,
    seconds: Annotated[float, typer.Option(help="How long each kind is asked.")] = 20.0,
    control_plane: Annotated[Kind, typer.Option(help="What answers the dry runs.")] = Kind.EMBEDDED,
    kubernetes: Annotated[str, typer.Option(help="Its minor.")] = "1.36",
) -> None:
    """Measure the webhooks and compare p99 with what is promised."""
    taken = run_loop(take(Plane(control_plane, kubernetes), rate, new_rate, seconds))
    for line in _table(taken):
        print(line)
    # The dry runs alone are the control plane's time.
    late = [each.what for each in taken if each.what != _ALONE and each.quantile(0.99) > PROMISED]
    if late:
        print(f"p99 above {PROMISED:g} ms: {', '.join(late)}", file=sys.stderr)
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
