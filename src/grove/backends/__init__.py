"""How gangs are expressed for each scheduler: a folder per scheduler. Pure; no folder imports another."""

import pkgutil


def folders() -> tuple[str, ...]:
    """The names of the backends that ship with Grove, without importing any of them."""
    return tuple(each.name for each in pkgutil.iter_modules(__path__) if each.ispkg)
