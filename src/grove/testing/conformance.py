"""The rules of the backend contract as tests: what any scheduler's backend must pass.

    class TestMine(BackendConformance):
        backend = MyBackend()

        def contexts(self):  # each cluster and configuration that the backend is made for
            return [Context(cluster=Cluster(served={...}))]  # with topology: one that has RACK and ZONE

        def minimum_of(self, manifests):  # how many pods the objects demand before any may run
            return sum(...)

        def minima_of(self, manifests):  # the same for each podgroup, where the objects tell them apart
            return {...}

        queue_annotation = "acme.example.com/queue"  # how a gang names its queue, if queues are declared

        packs_closely = True  # if the scheduler takes the smallest domain within a required one anyway

        def scored(self, manifests, score):  # the objects with a placement score, if that is declared
            return [{**each, "status": {...}} for each in manifests]

pytest collects the inherited test methods, `verdicts` runs them without it. Nothing here needs a cluster, a
clock or an event loop.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from grove.testing.rules.differences import DifferenceRules
from grove.testing.rules.honesty import HonestyRules
from grove.testing.rules.objects import ObjectRules
from grove.testing.rules.options import OptionRules
from grove.testing.rules.pods import PodRules
from grove.testing.rules.reading import ReadingRules
from grove.testing.rules.subject import SAMPLES
from grove.testing.rules.surroundings import SurroundingsRules
from grove.testing.rules.twins import RACK, ZONE

__all__ = ["RACK", "SAMPLES", "ZONE", "BackendConformance", "RuleVerdict", "verdicts"]


class BackendConformance(
    ObjectRules, HonestyRules, DifferenceRules, PodRules, ReadingRules, SurroundingsRules, OptionRules
):
    """Inherit, set `backend`, and run pytest."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """One rule and how a backend does by it; `why` is blank when it keeps the rule."""

    rule: str
    kept: bool
    why: str = ""

    @property
    def sentence(self) -> str:
        return self.rule.removeprefix("test_").replace("_", " ")


def verdicts(kit: BackendConformance) -> Iterator[RuleVerdict]:
    """Every rule of a kit, those that its author added included, run without pytest."""
    for name, method in inspect.getmembers(kit, inspect.ismethod):
        if not name.startswith("test_"):
            continue
        if inspect.signature(method).parameters:
            yield RuleVerdict(name, False, "has parameters, which only pytest can fill in")
            continue
        try:
            method()
        except Exception as error:
            yield RuleVerdict(name, False, _said(error))
        else:
            yield RuleVerdict(name, True)


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}"
