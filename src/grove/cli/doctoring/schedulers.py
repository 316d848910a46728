"""The schedulers: what each backend needs in the cluster, and whether anybody is at work for it."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from grove.backends.base import Backend
from grove.backends.registry import BUILT_INS
from grove.cli.doctoring.control_plane import simulated
from grove.cli.doctoring.findings import Finding, failed, fine, unseen, warning
from grove.cli.doctoring.installation import LEASES, Known
from grove.cli.preconditions import Surroundings, surroundings_of
from grove.extensions import configs_for, registry_for
from grove.kube.client import Client, VersionInfo
from grove.meta import Manifest
from grove.words import duration_in_words

_LINK = "docs/guides/backends.md"
_NATIVE = "kube-scheduler"
#: The backend of which it is known what its Lease is called.
_DEFAULT = "default"
#: How long a lease may be overdue: clocks differ, and leaders renew late.
_OVERDUE = timedelta(seconds=30)


async def preconditions(client: Client, known: Known) -> Sequence[Finding]:
    """What each enabled backend needs and lacks; without a configuration, which of the built-in ones could be
    used."""
    configs: dict[str, Manifest] = {}
    if known.configuration is not None:
        registry = registry_for(known.configuration.scheduler)
        configs = configs_for(registry, known.configuration.scheduler)
    found: list[Finding] = []
    unusable = []
    for backend in _backends(known):
        there = await surroundings_of(backend, client, configs)
        missing = [each for each in there.preconditions if each.missing]
        if not missing:
            found.append(fine(f"scheduler {backend.name}", "has everything that it needs in the cluster"))
            found += _falling_short(backend, there)
        elif known.configuration is None:
            unusable.append(backend.name)
        else:
            found += _lacking(backend, [f"{each.name}: {each.missing}" for each in missing], known)
    if unusable:
        said = f"not installed here, and not known to be enabled: {', '.join(unusable)}"
        found.append(fine("schedulers", said))
    return found


def _lacking(backend: Backend, missing: Sequence[str], known: Known) -> Sequence[Finding]:
    """An installation enables all schedulers: only that one must be there which is used unasked."""
    assert known.configuration is not None
    scheduler = known.configuration.scheduler
    unasked = registry_for(scheduler).find(scheduler.default_profile_name)
    is_needed = backend.name == "default" or (unasked is not None and unasked.name == backend.name)
    finding = failed if is_needed else warning
    fix = "install what is missing, or remove its profile from the configuration; sets that ask for it wait"
    return [finding(f"scheduler {backend.name}", each, fix=fix, link=_LINK) for each in missing]


def _falling_short(backend: Backend, there: Surroundings) -> Sequence[Finding]:
    """What gangs go without because of the installed release: it works, and they say it too."""
    name = f"scheduler {backend.name}"
    if there.unsure and there.shortcomings:
        said = "not known what its release can do: you may not try its objects by dry runs"
        return [unseen(name, said, fix="ask again as somebody who may", link=_LINK)]
    fix = "accept it, or install a newer release of the scheduler"
    return [warning(name, each, fix=fix, link=_LINK) for each in there.shortcomings]


async def alive(
    client: Client, version: VersionInfo, known: Known, now: Callable[[], datetime]
) -> Sequence[Finding]:
    """Whether each scheduler renews its Lease."""
    if simulated(version):
        return [fine("schedulers", "simulated by the embedded cluster")]
    leases = await client.list_all(LEASES, type=dict)
    moment = await client.server_time() or now()
    found = []
    for backend in _backends(known):
        own = [each for each in leases if _belongs(each["metadata"]["name"], backend)]
        if own or known.configuration is not None:
            found.append(_judged(backend, own, moment))
    return found


def _backends(known: Known) -> Sequence[Backend]:
    if known.configuration is not None:
        return registry_for(known.configuration.scheduler).enabled
    return [make() for make in BUILT_INS.values()]


def _belongs(lease: str, backend: Backend) -> bool:
    if backend.name == _DEFAULT:
        return lease == _NATIVE
    # A guess: what others call their Leases is up to whoever installs them, and no document says it.
    return lease.startswith((backend.scheduler_name, backend.name))


def _judged(backend: Backend, leases: Sequence[Manifest], now: datetime) -> Finding:
    name = f"scheduler {backend.name}"
    renewed = [
        (datetime.fromisoformat(spec["renewTime"]), spec, each["metadata"])
        for each in leases
        if (spec := each.get("spec") or {}).get("renewTime")
    ]
    if not renewed:
        said = "not known whether it runs: no Lease has its name; it may run without leader election"
        return unseen(name, said, fix="look at its pods", link=_LINK)
    when, spec, meta = max(renewed, key=lambda each: each[0])
    where, ago = f"Lease {meta['namespace']}/{meta['name']}", now - when
    if ago > timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0)) + _OVERDUE:
        since = f"{where} was last renewed {duration_in_words(ago.total_seconds())} ago"
        if backend.name != _DEFAULT:
            said = f"not known whether it runs: {since}, and only its name says that it is this scheduler's"
            return unseen(name, said, fix="look at its pods", link=_LINK)
        said = f"does not run: {since}"
        return failed(name, said, fix="look at its pods and their log", link=_LINK)
    guessed = "" if backend.name == _DEFAULT else ", by its name"
    return fine(name, f"{spec.get('holderIdentity') or 'somebody'} is at work ({where}{guessed})")
