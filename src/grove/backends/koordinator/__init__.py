"""How Grove expresses gangs for Koordinator."""

from grove.backends.koordinator.backend import KoordinatorBackend

__all__ = ["KoordinatorBackend"]
