"""How Grove expresses gangs for YuniKorn."""

from grove.backends.yunikorn.backend import YuniKornBackend

__all__ = ["YuniKornBackend"]
