"""Our own backends keep the rules that third parties must keep.

A backend's kit (its clusters, how to read minima off its objects) is `grove.testing.kits.<name>`: it ships, and
`grove backend check <name>` runs the same.
"""

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
