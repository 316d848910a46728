"""How Grove expresses gangs for Volcano."""

from grove.backends.volcano.backend import VolcanoBackend

__all__ = ["VolcanoBackend"]
