"""Scheduler backends of third parties: installed packages that offer one as an entry point.

    [project.entry-points."grove.backends"]
    mine = "my_package:MyBackend"                  # its name = what makes it, without arguments

    [project.entry-points."grove.conformance"]
    mine = "my_package.conformance:Conformance"    # optional: `grove backend check mine` runs it

Whatever is wrong with such a package becomes one sentence that names the distribution and the entry point. It
never takes the operator down unless the configuration asks for exactly that backend.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from grove.api.config import Scheduler
from grove.backends.base import Backend, Context, Traits, WithTraits, offers, traits_of
from grove.backends.registry import BUILT_INS, Registry
from grove.errors import FieldError, InvalidConfiguration
from grove.meta import Manifest

BACKENDS: Final = "grove.backends"
CONFORMANCE: Final = "grove.conformance"

#: What a backend must be able to do; `grove.backends.base.Backend` says what each of them means.
METHODS: Final = (
    "matches",
    "capabilities",
    "resources",
    "preconditions",
    "validate",
    "translate",
    "prepare_pod",
    "read",
)
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_GATE: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Extension:
    """A backend that an installed package offers, or why it cannot be used."""

    name: str
    #: Name and version of the distribution that it comes from.
    distribution: str
    #: What the entry point refers to: `package.module:attribute`.
    value: str
    backend: Backend | None = None
    problem: str = ""

    @property
    def source(self) -> str:
        return f"{self.distribution}, entry point {self.name} = {self.value}"


def installed() -> tuple[Extension, ...]:
    """Every offered backend, usable or not, in the order in which they are asked about a schedulerName."""
    found = [_load(point) for point in _points(BACKENDS)]
    counts = Counter(each.name for each in found)
    return tuple(
        _refused(each, _also(each, found)) if counts[each.name] > 1 else each for each in map(_checked, found)
    )


def registry_for(scheduler: Scheduler, extensions: Sequence[Extension] | None = None) -> Registry:
    """The backends that the configuration enables; raises InvalidConfiguration that names the profile."""
    offered = installed() if extensions is None else extensions
    names = [profile.name for profile in scheduler.profiles]
    broken = {each.name: each.problem for each in offered if each.backend is None}
    for index, name in enumerate(names):
        if name in broken and name not in BUILT_INS:
            wrong = FieldError(f"scheduler.profiles[{index}].name", broken[name])
            raise InvalidConfiguration(str(wrong), [wrong])
    usable = [each.backend for each in offered if each.backend is not None]
    try:
        return Registry.of(names, scheduler.default_profile_name, third_parties=usable)
    except InvalidConfiguration as error:
        if not broken:
            raise
        # A profile may name a scheduler whose backend could not even be asked.
        unusable = f"not usable: {'; '.join(broken.values())}"
        raise InvalidConfiguration(
            f"{error}; {unusable}", [*error.errors, FieldError("scheduler.profiles", unusable)]
        ) from None


def configs_for(registry: Registry, scheduler: Scheduler) -> dict[str, Manifest]:
    """The profiles' own configuration by backend: a profile may be called by a schedulerName."""
    found = ((registry.find(profile.name), profile.config) for profile in scheduler.profiles)
    return {backend.name: config for backend, config in found if backend is not None}


def unread_keys(registry: Registry, scheduler: Scheduler) -> Iterator[FieldError]:
    """The keys of the profiles' `config` that their backends do not read, where these say what they read."""
    for index, profile in enumerate(scheduler.profiles):
        backend = registry.find(profile.name)
        # Asked without the profile's values: a wrong one must not keep us from finding wrong keys.
        known = traits_of(backend, Context()).config_keys
        if backend is None or known is None:
            continue
        for key in profile.config:
            if key not in known:
                field = f"scheduler.profiles[{index}].config.{key}"
                yield FieldError(field, _unknown_key(str(key), known, backend.name))


def _unknown_key(key: str, known: frozenset[str], backend: str) -> str:
    """What to write instead: the nearest key that is known, or the list of them."""
    lowered = {each.lower(): each for each in sorted(known)}
    near = get_close_matches(key.lower(), lowered, n=1)
    if near:
        return f"unknown field; did you mean {lowered[near[0]]}?"
    reads = ", ".join(lowered.values()) or "none"
    return f"unknown field; the backend {backend} reads {reads}"


def external_in(registry: Registry, scheduler: Scheduler) -> frozenset[str]:
    """The backends whose gangs are left to a deployment of their own."""
    found = [registry.find(profile.name) for profile in scheduler.profiles if profile.external]
    return frozenset(backend.name for backend in found if backend is not None)


def kit_of(name: str) -> Any | None:
    """The conformance kit that a package offers for its backend; None if it offers none."""
    points = [point for point in _points(CONFORMANCE) if point.name == name]
    return points[0].load() if len(points) == 1 else None


def _points(group: str) -> list[EntryPoint]:
    """The entry points of a group, always in the same order."""
    return sorted(entry_points(group=group), key=lambda each: (_distribution(each), each.name, each.value))


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"


def _load(point: EntryPoint) -> Extension:
    extension = Extension(point.name, _distribution(point), point.value)
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:
        return _refused(extension, f"cannot be imported: {_said(error)}")
    if not callable(loaded):
        return _refused(
            extension, f"must be something to call without arguments, not {_a(loaded)}; a class will do"
        )
    try:
        return replace(extension, backend=loaded())
    except (Exception, SystemExit) as error:
        return _refused(extension, f"cannot be called without arguments: {_said(error)}")


def _checked(extension: Extension) -> Extension:
    if extension.backend is None:
        return extension
    problem = _problem(extension.name, extension.backend)
    return _refused(extension, problem) if problem else extension


def _problem(name: str, backend: object) -> str:
    """What of the contract a backend does not keep, as the end of a sentence; blank when all is well."""
    fields: Mapping[str, object] = {
        field: getattr(backend, field, None) for field in ("name", "scheduler_name", "scheduling_gate")
    }
    lacking = [field for field, value in fields.items() if not isinstance(value, str) or not value]
    lacking += [method for method in METHODS if not callable(getattr(backend, method, None))]
    if lacking:
        return f"does not keep the contract of a backend: it lacks {', '.join(lacking)}"
    own, scheduler, gate = (str(value) for value in fields.values())
    if name in BUILT_INS:
        return "has the name of a backend that ships with Grove; choose another"
    if own != name:
        return f"gives a backend that calls itself {own!r}; both names must be the same"
    if _LABEL.fullmatch(own) is None:
        return f"has a name that is not a DNS label: {own!r}"
    if _GATE.fullmatch(gate) is None:
        return f"has a scheduling_gate that Kubernetes does not accept: {gate!r}"
    owners = [each.name for each in (make() for make in BUILT_INS.values()) if each.matches(scheduler)]
    if owners:
        return f"has the schedulerName {scheduler!r}, which belongs to the backend {owners[0]}"
    try:
        matches = getattr(backend, "matches")(scheduler)  # noqa: B009 - checked above, not typed
    except Exception as error:
        return f"fails when it is asked about its own schedulerName {scheduler!r}: {_said(error)}"
    if not matches:
        return f"does not match its own schedulerName {scheduler!r}"
    return _fails_at_rest(backend)


def _fails_at_rest(backend: object) -> str:
    """What every process asks of a backend at its start must not fail on any cluster."""
    for method in ("capabilities", "resources", "preconditions"):
        try:
            list(getattr(backend, method)(Context()))
        except Exception as error:
            return f"fails when it is asked for its {method} on an empty cluster: {_said(error)}"
    if not offers(backend, WithTraits):
        return ""
    try:
        traits = backend.traits(Context())
    except Exception as error:
        return f"fails when it is asked for its traits on an empty cluster: {_said(error)}"
    return "" if isinstance(traits, Traits) else f"must say its traits as Traits, not as {_a(traits)}"


def _refused(extension: Extension, why: str) -> Extension:
    group = f"the entry point {extension.name!r} of {BACKENDS} ({extension.value})"
    return replace(extension, backend=None, problem=f"{extension.distribution}: {group} {why}")


def _also(extension: Extension, found: Sequence[Extension]) -> str:
    others = [each.distribution for each in found if each.name == extension.name and each is not extension]
    others = [each for each in others if each != extension.distribution] or [
        f"{extension.distribution} twice"
    ]
    return f"clashes with one of the same name from {', '.join(others)}; uninstall all but one"


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _a(value: object) -> str:
    return "a module" if type(value).__name__ == "module" else f"an object of type {type(value).__name__}"
