"""Who asks: the user that authentication found, as authorisation, admission and the request log see it."""

from __future__ import annotations

from dataclasses import dataclass

MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def is_master(self) -> bool:
        """Members of this group may do anything; RBAC is not asked."""
        return MASTERS in self.groups


ADMIN = User("kubernetes-admin", (MASTERS, "system:authenticated"))
