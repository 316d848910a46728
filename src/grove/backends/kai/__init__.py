"""How Grove expresses gangs for KAI Scheduler."""

from grove.backends.kai.backend import KaiBackend

__all__ = ["KaiBackend"]
