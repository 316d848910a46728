"""Differences: what a gang asks for reaches the scheduler, at every level; the backend's word is not enough.

Two gangs that differ in one property must become different objects or different pods wherever the backend
declares the property or calls it enforced. It may refuse one of the gangs instead, or account for the
property as a loss.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from grove.backends.base import Capability, Context
from grove.testing import make
from grove.testing.rules.subject import SAMPLES, Subject, needed
from grove.testing.rules.telling import Hearing, Told
from grove.testing.rules.twins import (
    GANG,
    GROUP,
    LEVELS,
    MINIMUM,
    PODGROUPS,
    RACK,
    ZONE,
    Pair,
    Twin,
    constraints,
    described,
    elsewhere,
    packed,
    plain,
    queued,
    raised,
    returning,
    scaled,
    single,
    urgent,
)

#: Which losses explain that a constraint makes no difference. What is required of a group is a must as well:
#: that the scheduler does not support groups does not explain it.
_REQUIRED: Final = (Capability.TOPOLOGY_REQUIRED,)
_PREFERRED: Final = (Capability.TOPOLOGY_PREFERRED, Capability.HIERARCHY)


class DifferenceRules(Subject):
    """What must differ when a gang asks for something else."""

    # Minima -----------------------------------------------------------------------------------------

    def test_the_minimum_of_the_gang_makes_a_difference(self) -> None:
        self._tells_apart([Pair("the gang", single(MINIMUM), single(MINIMUM + 1))], (Capability.GANG,))

    def test_the_minimum_of_each_podgroup_makes_a_difference_of_its_own(self) -> None:
        about = (Capability.SUBGROUPS,)
        for place, context in enumerate(self.contexts()):
            hearing, usual = Hearing(self.backend, context), plain(f"minReplicas {MINIMUM}")
            base, higher = hearing.of(usual.gang), {name: raised(name) for name in PODGROUPS}
            told = {name: hearing.of(twin.gang) for name, twin in higher.items()}
            claim = self._claim(about, about, [base, *told.values()], context)
            for name in PODGROUPS if claim else ():
                others = [each.statements for other, each in told.items() if other != name]
                # Whatever the minimum of another podgroup changes too is their sum.
                own = told[name].statements.difference(base.statements, *others)
                why = _same(Pair(f"podgroup {name}", usual, higher[name]), about, claim, place)
                assert own, f"{why}. The sum of all minima is not enough"

    # Topology ---------------------------------------------------------------------------------------

    def test_a_domain_that_the_gang_requires_makes_a_difference(self) -> None:
        self._tells_apart(constraints(GANG, must=True), _REQUIRED)

    def test_a_domain_that_a_group_of_podgroups_requires_makes_a_difference(self) -> None:
        self._tells_apart(constraints(GROUP, must=True), (*_REQUIRED, Capability.HIERARCHY), _REQUIRED)

    def test_a_domain_that_a_podgroup_requires_makes_a_difference(self) -> None:
        for podgroup in PODGROUPS:
            self._tells_apart(constraints(podgroup, must=True), _REQUIRED)

    def test_a_domain_that_the_gang_prefers_makes_a_difference(self) -> None:
        self._tells_apart(constraints(GANG, must=False), _PREFERRED[:1])

    def test_a_domain_that_a_group_of_podgroups_prefers_makes_a_difference(self) -> None:
        self._tells_apart(constraints(GROUP, must=False), _PREFERRED)

    def test_a_domain_that_a_podgroup_prefers_makes_a_difference(self) -> None:
        for podgroup in PODGROUPS:
            self._tells_apart(constraints(podgroup, must=False), _PREFERRED[:1])

    def test_what_is_required_differs_from_what_is_preferred(self) -> None:
        pairs = [
            Pair(described(level), packed(level, required=RACK), packed(level, preferred=RACK))
            for level in LEVELS
        ]
        self._tells_apart(pairs, (Capability.TOPOLOGY_REQUIRED, Capability.TOPOLOGY_PREFERRED))

    def test_what_is_preferred_within_what_is_required_makes_a_difference(self) -> None:
        if self.packs_closely:
            return
        pairs = [
            Pair(described(level), packed(level, required=ZONE), packed(level, required=ZONE, preferred=RACK))
            for level in LEVELS
        ]
        self._tells_apart(pairs, _PREFERRED[:1], _PREFERRED)

    def test_it_makes_a_difference_whose_domain_is_required(self) -> None:
        self._tells_apart(elsewhere(must=True), _REQUIRED)

    def test_it_makes_a_difference_whose_domain_is_preferred(self) -> None:
        self._tells_apart(elsewhere(must=False), _PREFERRED[:1], _PREFERRED)

    def test_the_domain_that_a_replica_shares_makes_a_difference_to_its_scaled_gangs(self) -> None:
        nothing, rack, zone = scaled(), scaled(RACK), scaled(ZONE)
        pairs = [(nothing, rack), (rack, zone), (nothing, scaled(preferred=RACK)), (rack, scaled("", RACK))]
        self._tells_apart(
            [Pair("the replica", one, other) for one, other in pairs], (Capability.REPLICA_TOPOLOGY,)
        )

    # The rest ---------------------------------------------------------------------------------------

    def test_the_priority_of_the_gang_makes_a_difference(self) -> None:
        pairs = _with_and_without("priority class", [urgent("high"), urgent("low")])
        self._tells_apart(pairs, (Capability.PRIORITY,))

    def test_the_queue_of_the_gang_makes_a_difference(self) -> None:
        declared = any(Capability.QUEUE in self.backend.capabilities(each) for each in self.contexts())
        assert self.queue_annotation or not declared, (
            "queue is declared, and the kit does not know where a gang names its queue: set queue_annotation "
            "in your subclass of BackendConformance to that annotation"
        )
        if self.queue_annotation:
            named = [queued(self.queue_annotation, queue) for queue in ("first", "second")]
            self._tells_apart(_with_and_without("queue", named), (Capability.QUEUE,))

    def test_the_reservation_that_a_gang_may_reuse_makes_a_difference(self) -> None:
        pairs = _with_and_without("reservation", [returning("before"), returning("long-before")])
        self._tells_apart(pairs, (Capability.REUSE,))

    def test_the_score_of_a_placement_is_the_one_that_the_scheduler_gave(self) -> None:
        gang = SAMPLES[Capability.GANG]
        for context in self.contexts():
            if Capability.PLACEMENT_SCORE not in self.backend.capabilities(context):
                continue
            placed = [make.pod(clique, index, gang=gang, node="n1") for clique, index in needed(gang)]
            for score in (0.25, 0.75):
                objects = self.scored(self.backend.translate(gang, context).manifests, score)
                assert objects is not None, (
                    "placement-score is declared, and the kit does not know where the scheduler writes it: "
                    "override scored() in your subclass of BackendConformance"
                )
                found = self.backend.read(gang, objects, placed, context).placement_score
                assert found == score, (
                    f"placement-score of the gang: the scheduler gave {score}, read() returns {found}"
                )

    # ------------------------------------------------------------------------------------------------

    def _tells_apart(
        self, pairs: Iterable[Pair], about: Sequence[Capability], explained_by: Sequence[Capability] = ()
    ) -> None:
        """Each pair differs where the backend promises one of the properties; losses may explain why not."""
        compared = list(pairs)
        for place, context in enumerate(self.contexts()):
            hearing = Hearing(self.backend, context)
            for pair in compared:
                if pair.both_constrained and (hearing.misses(pair.one) or hearing.misses(pair.other)):
                    # That breaks the rule about this level, where it is compared with no constraint.
                    continue
                one, other = hearing.of(pair.one.gang), hearing.of(pair.other.gang)
                if claim := self._claim(about, explained_by or about, [one, other], context):
                    assert one.statements != other.statements, _same(pair, about, claim, place)

    def _claim(
        self,
        about: Sequence[Capability],
        explained_by: Sequence[Capability],
        found: Sequence[Told],
        context: Context,
    ) -> str:
        """Where the backend promises one of these properties; empty if nowhere, or if it admits a loss."""
        if any(each.refused or each.accounts_for(explained_by, enforced=False) for each in found):
            return ""
        declared = self.backend.capabilities(context).intersection(about)
        if declared:
            return f"capabilities() declares {' and '.join(sorted(declared))}"
        enforced = any(each.accounts_for(about, enforced=True) for each in found)
        return f"its treatments call {' or '.join(about)} enforced" if enforced else ""


def _with_and_without(what: str, asked: Sequence[Twin]) -> Iterator[Pair]:
    """Something or nothing, and something or something else; all of it is said of the whole gang."""
    yield Pair("the gang", plain(f"no {what}"), asked[0])
    yield Pair("the gang", asked[0], asked[1])


def _same(pair: Pair, about: Sequence[Capability], claim: str, place: int) -> str:
    """What went wrong and what to do, for the author of a backend."""
    return (
        f"{about[0]} at the level of {pair.level}: a gang with {pair.one.text} and one with "
        f"{pair.other.text} become the same objects and pods in contexts()[{place}], although {claim}; write "
        "the property into an object or onto the pods. If the scheduler cannot honour it, do not declare it, "
        "or for such gangs give treatments.account() a Treatment that says why, or raise Unsupported"
    )
