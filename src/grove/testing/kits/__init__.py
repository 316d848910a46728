"""The conformance kits of the backends that ship with Grove: one module each, named like the backend.

A third party offers its kit by the entry point `grove.conformance`; ours are found by their module's name.
"""

import importlib
from importlib.util import find_spec

from grove.backends.registry import BUILT_INS
from grove.errors import GroveError
from grove.extensions import kit_of
from grove.testing.conformance import BackendConformance


class BadKit(GroveError):
    """A package offers something as a conformance kit that is none."""

    code = "ERR_BAD_KIT"


def kit_for(name: str) -> BackendConformance | None:
    """The kit of a backend, ready to run; None where nobody offers one."""
    kind = _of_built_in(name) if name in BUILT_INS else _of_third_party(name)
    return kind() if kind is not None else None


def _of_built_in(name: str) -> type[BackendConformance] | None:
    module = f"{__name__}.{name}"
    if find_spec(module) is None:
        return None
    kind: type[BackendConformance] = importlib.import_module(module).Conformance
    return kind


def _of_third_party(name: str) -> type[BackendConformance] | None:
    try:
        kind = kit_of(name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise BadKit(f"the entry point {name!r} of grove.conformance cannot be imported: {why}") from None
    if kind is None:
        return None
    if not isinstance(kind, type) or not issubclass(kind, BackendConformance):
        raise BadKit(f"the entry point {name!r} of grove.conformance is no subclass of BackendConformance")
    backend = getattr(kind, "backend", None)
    if getattr(backend, "name", None) != name:
        raise BadKit(f"the entry point {name!r} of grove.conformance does not set `backend` to that backend")
    return kind
