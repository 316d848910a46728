"""The backend keeps the rules of the contract."""

from grove_coscheduling.conformance import Conformance


class TestCoscheduling(Conformance):
    pass
