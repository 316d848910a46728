"""The scheduler backend `coscheduling` for Grove."""

from grove_coscheduling.backend import Backend

__all__ = ["Backend"]
