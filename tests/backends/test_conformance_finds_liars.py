"""Backends that do not tell the scheduler what they promise are found, each by the rule about just that.

Every rule that is not about differences is kept by all of them: without these rules nothing would be wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from tests.backends import clusters, liars
from tests.backends.clusters import on
from tests.backends.liars import Honest, Liar, OnPods

from grove.api.gang import PodGang
from grove.backends.base import Backend, Capability, Context, Fidelity, Translation, Treatment
from grove.backends.kai.backend import POD_GROUP_ANNOTATION
from grove.backends.kai.queue import QUEUE
from grove.meta import Manifest
from grove.testing import make
from grove.testing.conformance import BackendConformance, verdicts
from grove.testing.rules.telling import Hearing

K = BackendConformance
Rule = Callable[[BackendConformance], None]


class Kit(BackendConformance):
    """A kit that looks no closer at the objects than it must."""

    __test__ = False
    backend: ClassVar[Backend] = Honest()
    queue_annotation: ClassVar[str] = QUEUE

    def contexts(self) -> Sequence[Context]:
        return [on(clusters.KAI_012)]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        return sum(int(each["spec"]["minMember"]) for each in manifests)

    def links_of(self, pod: Manifest) -> Sequence[str]:
        link = pod["metadata"]["annotations"].get(POD_GROUP_ANNOTATION)
        return [link] if link else []

    def scored(self, manifests: Sequence[Manifest], score: float) -> Sequence[Manifest] | None:
        return [{**each, "status": {"score": score}} for each in manifests]


def kit_for(backend: Backend) -> BackendConformance:
    return type("KitForOne", (Kit,), {"backend": backend})()  # type: ignore[no-any-return]


def broken(backend: Backend) -> dict[str, str]:
    """The rules that a backend breaks, and why."""
    return {each.rule: each.why for each in verdicts(kit_for(backend)) if not each.kept}


@dataclass(frozen=True)
class Lie:
    """How a gang is misunderstood, or what is written instead; which rules find it, with which words."""

    rules: Sequence[Rule]
    understood: Callable[[PodGang], PodGang] = lambda gang: gang
    written: Callable[[Manifest], None] = lambda manifest: None
    says: str = ""


REQUIRES = {
    "gang": K.test_a_domain_that_the_gang_requires_makes_a_difference,
    "group": K.test_a_domain_that_a_group_of_podgroups_requires_makes_a_difference,
    "podgroup": K.test_a_domain_that_a_podgroup_requires_makes_a_difference,
}
PREFERS = {
    "gang": K.test_a_domain_that_the_gang_prefers_makes_a_difference,
    "group": K.test_a_domain_that_a_group_of_podgroups_prefers_makes_a_difference,
    "podgroup": K.test_a_domain_that_a_podgroup_prefers_makes_a_difference,
}
TOLD_APART = K.test_what_is_required_differs_from_what_is_preferred
WITHIN = K.test_what_is_preferred_within_what_is_required_makes_a_difference
REPLICA = K.test_the_domain_that_a_replica_shares_makes_a_difference_to_its_scaled_gangs
LIES = {
    "no topology": Lie(
        [*REQUIRES.values(), *PREFERS.values()],
        liars.packing(*[liars.nothing] * 3),
    ),
    "what a replica shares": Lie(
        [REPLICA],
        liars.no_replica,
        says="replica-topology at the level of the replica: a gang with nothing that its replica shares and one with "
        "grove.io/replica-pack-required=example.com/rack become the same objects and pods",
    ),
    "what a replica must share": Lie([REPLICA], liars.nothing_required_of_the_replica),
    "what a replica should share": Lie(
        [REPLICA],
        liars.nothing_preferred_of_the_replica,
        says="and one with grove.io/replica-pack-preferred=example.com/rack",
    ),
    "what the gang requires": Lie(
        [REQUIRES["gang"]],
        liars.packing(gang=liars.not_required),
        says="topology-required at the level of the gang: a gang with no constraint and one with required "
        "example.com/rack on the gang become the same objects and pods in contexts()[0], although "
        "capabilities() declares topology-required; write the property into an object or onto the pods.",
    ),
    "what a group requires": Lie(
        [REQUIRES["group"]],
        liars.packing(group=liars.not_required),
        says="topology-required at the level of the group of twin-a and twin-b",
    ),
    "what a podgroup requires": Lie(
        [REQUIRES["podgroup"]],
        liars.packing(podgroup=liars.not_required),
        says="topology-required at the level of podgroup twin-a",
    ),
    "what a podgroup requires that is not the first": Lie(
        [REQUIRES["podgroup"], PREFERS["podgroup"]],
        liars.first_podgroup_only,
        says="at the level of podgroup twin-b",
    ),
    "what the gang prefers": Lie([PREFERS["gang"]], liars.packing(gang=liars.no_lone_preference)),
    "what a group prefers": Lie([PREFERS["group"]], liars.packing(group=liars.no_lone_preference)),
    "what a podgroup prefers": Lie([PREFERS["podgroup"]], liars.packing(podgroup=liars.no_lone_preference)),
    "every preference": Lie([*PREFERS.values(), WITHIN], liars.packing(*[liars.no_preference] * 3)),
    "the constraint of a group": Lie(
        [REQUIRES["group"], PREFERS["group"]], liars.packing(group=liars.nothing)
    ),
    "groups": Lie([REQUIRES["group"], PREFERS["group"]], liars.no_group_at_all),
    "which domain the gang requires": Lie(
        [REQUIRES["gang"]],
        liars.packing(gang=liars.any_rack),
        says="a gang with required example.com/rack on the gang and one with required example.com/zone",
    ),
    "which domain a group requires": Lie([REQUIRES["group"]], liars.packing(group=liars.any_rack)),
    "which domain a podgroup requires": Lie([REQUIRES["podgroup"]], liars.packing(podgroup=liars.any_rack)),
    "that a preference is none": Lie(
        [TOLD_APART],
        liars.packing(*[liars.lone_preference_required] * 3),
        says="a gang with required example.com/rack on the gang and one with preferred example.com/rack on",
    ),
    "that a podgroup only prefers": Lie([TOLD_APART], liars.packing(podgroup=liars.lone_preference_required)),
    "that a group requires": Lie([TOLD_APART], liars.packing(group=liars.lone_requirement_preferred)),
    "what is preferred beside what is required": Lie(
        [WITHIN],
        liars.packing(*[liars.required_or_else_preferred] * 3),
        says="topology-preferred at the level of the gang: a gang with required example.com/zone on the gang "
        "and one with required example.com/zone and preferred example.com/rack on the gang become the same",
    ),
    "who requires a domain": Lie(
        [K.test_it_makes_a_difference_whose_domain_is_required],
        liars.moved_to_the_gang,
        says="topology-required at the level of the gang or podgroup twin-a: a gang with required "
        "example.com/rack on the gang and one with required example.com/rack on podgroup twin-a",
    ),
    "which podgroups prefer a domain": Lie(
        [K.test_it_makes_a_difference_whose_domain_is_preferred], liars.first_two_preferred
    ),
    "the priority": Lie(
        [K.test_the_priority_of_the_gang_makes_a_difference],
        liars.no_priority,
        says="priority at the level of the gang: a gang with no priority class and one with "
        "priorityClassName high",
    ),
    "which priority": Lie(
        [K.test_the_priority_of_the_gang_makes_a_difference],
        liars.one_priority,
        says="a gang with priorityClassName high and one with priorityClassName low",
    ),
    "the queue": Lie(
        [K.test_the_queue_of_the_gang_makes_a_difference],
        liars.no_queue,
        says="queue at the level of the gang: a gang with no queue and one with the annotation "
        "kai.scheduler/queue=first",
    ),
    "the reservation": Lie(
        [K.test_the_reservation_that_a_gang_may_reuse_makes_a_difference], liars.no_reservation
    ),
    "the minimum of one podgroup": Lie(
        [K.test_the_minimum_of_each_podgroup_makes_a_difference_of_its_own],
        written=liars.last_minimum_is_one,
        says="subgroups at the level of podgroup twin-c: a gang with minReplicas 2 and one with minReplicas 3 "
        "of twin-c",
    ),
}
#: Only without objects: the minimum that objects demand is compared by another rule as well.
ON_PODS = {
    "the minimum of the gang": Lie(
        [K.test_the_minimum_of_the_gang_makes_a_difference],
        liars.one_size_when_alone,
        says="gang at the level of the gang: a gang with minReplicas 2 and one with minReplicas 3",
    )
}
SCORE = K.test_the_score_of_a_placement_is_the_one_that_the_scheduler_gave
#: The rules that are broken here, by backends that keep all others.
RULES_OF_LIARS = {rule.__name__ for lie in (*LIES.values(), *ON_PODS.values()) for rule in lie.rules} | {
    SCORE.__name__
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_what_is_not_in_the_objects_is_found(lie: Lie) -> None:
    found = broken(Liar(lie.understood, lie.written))
    assert set(found) == {rule.__name__ for rule in lie.rules}
    assert all(lie.says in why for why in found.values()), found


@pytest.mark.parametrize("lie", (LIES | ON_PODS).values(), ids=LIES | ON_PODS)
def test_what_is_not_on_the_pods_of_a_backend_without_objects_is_found(lie: Lie) -> None:
    found = broken(OnPods(lie.understood, lie.written))
    assert set(found) == {rule.__name__ for rule in lie.rules}
    assert all(lie.says in why for why in found.values()), found


@pytest.mark.parametrize(
    "backend", [Honest(), Liar(), OnPods(), liars.Scoring()], ids=lambda each: type(each)
)
def test_who_tells_everything_breaks_no_rule(backend: Backend) -> None:
    assert broken(backend) == {}


def test_what_is_told_without_being_declared_is_no_fault() -> None:
    assert broken(liars.Modest()) == {}


def test_what_is_called_enforced_without_being_declared_must_make_a_difference() -> None:
    why = broken(liars.SilentlySure())[K.test_the_priority_of_the_gang_makes_a_difference.__name__]
    assert "although its treatments call priority enforced" in why


def test_a_loss_that_is_told_needs_no_difference() -> None:
    class Plain(Liar):
        def translate(self, gang: PodGang, context: Context) -> Translation:
            made = super().translate(gang, context)
            lost = Treatment(Capability.PRIORITY, Fidelity.APPROXIMATED, "it starts whom it likes")
            kept = [each for each in made.treatments if each.property != Capability.PRIORITY]
            return Translation(
                made.manifests, (*kept, lost) if gang.spec.priority_class_name else made.treatments
            )

        def capabilities(self, context: Context) -> frozenset[Capability]:
            return super().capabilities(context) - {Capability.PRIORITY}

    assert broken(Plain(liars.no_priority)) == {}


def test_that_a_scheduler_knows_no_groups_does_not_excuse_what_a_group_requires() -> None:
    class Groupless(Liar):
        def capabilities(self, context: Context) -> frozenset[Capability]:
            return super().capabilities(context) - {Capability.HIERARCHY}

    found = broken(Groupless(liars.no_group_at_all))
    assert REQUIRES["group"].__name__ in found
    assert PREFERS["group"].__name__ not in found


def test_a_scheduler_that_packs_closely_anyway_needs_no_preference_within_what_is_required() -> None:
    liar = Liar(liars.packing(*[liars.required_or_else_preferred] * 3))
    kit = type("Close", (Kit,), {"backend": liar, "packs_closely": True})()
    assert all(each.kept for each in verdicts(kit))


# Queues and scores, of which only the author of a backend knows where they are written ------------------


def test_a_queue_that_is_declared_must_be_known_to_the_kit() -> None:
    kit = type("Unknowing", (Kit,), {"backend": Honest(), "queue_annotation": ""})()
    with pytest.raises(AssertionError, match="set queue_annotation in your subclass of BackendConformance"):
        kit.test_the_queue_of_the_gang_makes_a_difference()


def test_a_score_must_be_the_one_that_was_given() -> None:
    assert broken(liars.FullMarks()) == {
        SCORE.__name__: "placement-score of the gang: the scheduler gave 0.25, read() returns 1.0"
    }


def test_a_score_that_is_declared_must_be_known_to_the_kit() -> None:
    kit = type("Unknowing", (Kit,), {"backend": liars.Scoring(), "scored": BackendConformance.scored})()
    with pytest.raises(AssertionError, match=r"override scored\(\) in your subclass of BackendConformance"):
        kit.test_the_score_of_a_placement_is_the_one_that_the_scheduler_gave()


# What counts as told ------------------------------------------------------------------------------------


def test_names_of_objects_tell_nothing_wherever_they_stand() -> None:
    def renamed(suffix: str) -> Backend:
        class Renames(Honest):
            def translate(self, gang: PodGang, context: Context) -> Translation:
                made = super().translate(gang, context)
                for each in made.manifests:
                    each["metadata"]["name"] += suffix
                    each["metadata"]["annotations"] = {"all": f'["{each["metadata"]["name"]}"]'}
                return made

            def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
                prepared = super().prepare_pod(pod, gang, context)
                prepared["metadata"]["annotations"][POD_GROUP_ANNOTATION] += suffix
                return prepared

        return Renames()

    gang, context = make.gang("g", {"a": 1, "b": 2}), on(clusters.KAI_012)
    one, other = (Hearing(renamed(each), context).of(gang) for each in ("-m2", "-m3"))
    assert one == other


def test_a_context_in_which_nothing_can_be_translated_is_called_incomplete() -> None:
    kit = type("Empty", (Kit,), {"contexts": lambda self: [Context()]})()
    with pytest.raises(AssertionError, match=r"contexts\(\) is not complete: .* install KAI"):
        kit.test_the_priority_of_the_gang_makes_a_difference()
