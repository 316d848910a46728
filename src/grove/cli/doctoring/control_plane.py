"""The control plane: its version, its clock, its gang API, and the pitfall of one kube-scheduler."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from grove.api import kinds
from grove.cli.doctoring.findings import Finding, failed, fine, unseen, warning
from grove.cli.preconditions import DROPPED, KEPT, NativeGangs
from grove.kube.client import Client, VersionInfo
from grove.meta import Manifest
from grove.words import duration_in_words

_SETTINGS: Final = "docs/guides/real-cluster.md#1-is-gang-scheduling-on"
#: The minors that Grove is tested with.
TESTED: Final = ((1, 35), (1, 36), (1, 37))
#: A Date header has whole seconds, and the answer takes its time.
_TOLERATED: Final = timedelta(seconds=3)
_HARMFUL: Final = timedelta(seconds=60)
_GATE: Final = "SchedulerPopFromBackoffQ"
_SIMULATED: Final = "-embedded"


def simulated(version: VersionInfo) -> bool:
    """Whether it is the embedded cluster, whose schedulers are played."""
    return version.git_version.endswith(_SIMULATED)


async def api_server(version: VersionInfo, server: str) -> Sequence[Finding]:
    """Which Kubernetes it is."""
    said = f"Kubernetes {version.git_version} at {server}"
    if version.number in TESTED:
        return [fine("api server", said)]
    tested = ", ".join(f"{major}.{minor}" for major, minor in TESTED)
    return [
        warning(
            "api server",
            f"{said}, which Grove is not tested with",
            fix=f"use one of {tested}",
            link="docs/guides/real-cluster.md",
        )
    ]


async def clock(client: Client, now: Callable[[], datetime]) -> Sequence[Finding]:
    """Whether the API server's clock and this machine's agree."""
    before = now()
    theirs = await client.server_time()
    ours = before + (now() - before) / 2
    if theirs is None:
        return [unseen("clock", "the API server does not say what time it is")]
    off = abs(theirs - ours)
    if off <= _TOLERATED:
        return [fine("clock", "this machine's clock and the API server's agree")]
    which = "behind" if theirs > ours else "ahead of"
    said = f"this machine's clock is {duration_in_words(off.total_seconds())} {which} the API server's"
    judge = failed if off > _HARMFUL else warning
    return [
        judge(
            "clock",
            f"{said}: certificates, tokens and waiting times are judged by it",
            fix="synchronise the clock (NTP)",
            link="docs/guides/troubleshooting.md#what-grove-doctor-says",
        )
    ]


async def gang_scheduling(native: NativeGangs) -> Sequence[Finding]:
    """Which gang API of Kubernetes' own the cluster serves, and whether its feature gates are on."""
    name = "gang scheduling"
    if native.problem:
        return [failed(name, native.problem, fix="see the settings of your minor", link=_SETTINGS)]
    if not native.version:
        said = "no gang API is served: pods for Kubernetes' own scheduler run without a guarantee"
        fix = "switch on the feature gates and the API version of your minor, or use another scheduler"
        return [warning(name, said, fix=fix, link=_SETTINGS)]
    served = f"scheduling.k8s.io/{native.version} is served"
    if native.link_kept == DROPPED:
        said = f"{served}, but the API server drops {native.link} of pods: its feature gate is off"
        fix = "give the API server, the controller manager and kube-scheduler the same feature gates"
        return [failed(name, said, fix=fix, link=_SETTINGS)]
    kept = f"; kept behind feature gates: {', '.join(native.fields)}" if native.fields else ""
    if native.link_kept != KEPT:
        said = f"{served}{kept}; whether pods keep {native.link} cannot be tried (you may not create pods)"
        return [unseen(name, said, link=_SETTINGS)]
    return [fine(name, f"{served}, and pods keep {native.link}{kept}")]


async def backoff_queue(client: Client, native: NativeGangs, version: VersionInfo) -> Sequence[Finding]:
    """Whether kube-scheduler 1.36 is kept from trying a gang that does not fit without a pause."""
    if version.number != (1, 36) or simulated(version) or not native.version:
        return []
    name, fix = "kube-scheduler", f"give kube-scheduler --feature-gates={_GATE}=false"
    pods = await client.list_all(
        kinds.PODS, type=dict, namespace="kube-system", labels="component=kube-scheduler"
    )
    if not pods:
        said = f"1.36 spins on a gang that does not fit unless {_GATE} is off, which cannot be seen here"
        return [unseen(name, said, fix=fix, link=_SETTINGS)]
    without = [pod["metadata"]["name"] for pod in pods if f"{_GATE}=false" not in _arguments(pod)]
    if not without:
        return [fine(name, f"{_GATE} is off, as 1.36 needs it")]
    said = f"{', '.join(without)} tries a gang that does not fit thousands of times a second"
    return [warning(name, said, fix=fix, link=_SETTINGS)]


def _arguments(pod: Manifest) -> str:
    containers = pod.get("spec", {}).get("containers") or ()
    return " ".join(
        " ".join([*(each.get("command") or ()), *(each.get("args") or ())]) for each in containers
    )
