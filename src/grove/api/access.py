"""The parts of accounts, roles and their bindings that Grove reads: what it or the Go operator wrote."""

import msgspec

from grove.meta import Manifest, Object


class ServiceAccount(Object):
    """Who the waiting pods are that the Go operator made; seen by its metadata alone."""


class Role(Object):
    """What the pods of a set that wait for others may do."""

    rules: tuple[Manifest, ...] = ()


class RoleBinding(Object):
    """Who may do it."""

    role_ref: Manifest = msgspec.field(default_factory=dict)
    subjects: tuple[Manifest, ...] = ()
