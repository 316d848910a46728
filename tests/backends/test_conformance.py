"""Our own backends keep the rules that third parties must keep.

A backend's kit (its clusters, how to read minima off its objects) is `grove.testing.kits.<name>`: it ships, and
`grove backend check <name>` runs the same.
"""

from grove.backends.registry import BUILT_INS
from grove.testing.conformance import BackendConformance
from grove.testing.kits import default, kai, koordinator, volcano, yunikorn


class TestDefault(default.Conformance):
    pass


class TestKai(kai.Conformance):
    pass


class TestKoordinator(koordinator.Conformance):
    pass


class TestVolcano(volcano.Conformance):
    pass


class TestYuniKorn(yunikorn.Conformance):
    pass


def test_every_built_in_is_held_to_the_rules_here() -> None:
    kits = [each for each in globals().values() if isinstance(each, type) and each is not BackendConformance]
    held = {kit.backend.name for kit in kits if issubclass(kit, BackendConformance)}
    assert held == set(BUILT_INS)
