"""How Grove expresses gangs for Kubernetes' own scheduler, in the three generations of its scheduling API.

`generation` finds out what the cluster offers, `modes` chooses how a gang is expressed in it, `objects`
writes the objects, `linking` ties pods to them, `reading` reads what the scheduler decided.
"""

from grove.backends.default.backend import DefaultBackend

__all__ = ["DefaultBackend"]
