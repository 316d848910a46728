"""The parts of roles and their bindings that Grove reads: what it wrote there itself."""

import msgspec

from grove.meta import Manifest, Object


class Role(Object):
    """What the pods of a set that wait for others may do."""

    rules: tuple[Manifest, ...] = ()


class RoleBinding(Object):
    """Who may do it."""

    role_ref: Manifest = msgspec.field(default_factory=dict)
    subjects: tuple[Manifest, ...] = ()
