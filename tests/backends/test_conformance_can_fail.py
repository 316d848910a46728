"""Each rule of the conformance kit is broken on purpose once, so that a green run means something."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from tests.backends import clusters
from tests.backends.broken import (
    AboveMinimum,
    AcceptsSets,
    Accumulates,
    AddsContainer,
    Babbles,
    BelowMinimum,
    Boaster,
    ByVersion,
    Curt,
    Dangling,
    Demanding,
    DropsClaims,
    DropsLabels,
    DropsNotes,
    EditsStatus,
    Elsewhere,
    Finalized,
    ForgetsLevels,
    ForgetsScheduler,
    Fragile,
    Grudge,
    Hallucinates,
    IgnoresRequired,
    Impatient,
    LongNames,
    Mutates,
    Mute,
    NeverTheSame,
    OneClusterOnly,
    OneForAll,
    OnlyTheSum,
    Optimist,
    Ownerless,
    Pessimist,
    ReadsAllEvents,
    ReadsAnotherKey,
    Recycles,
    RefusesAll,
    Remembers,
    ReplacesPods,
    Scribbles,
    Secretive,
    Silent,
    Stranger,
    TakesGates,
    Tolerant,
    Twins,
    Ungated,
    Unlabelled,
    Unreasoned,
    Unwatched,
    WrongMix,
)
from tests.backends.clusters import on
from tests.backends.test_conformance_finds_liars import RULES_OF_LIARS

from grove.backends.base import (
    Backend,
    Context,
)
from grove.backends.kai.backend import POD_GROUP_ANNOTATION, KaiBackend
from grove.backends.kai.queue import QUEUE
from grove.meta import Manifest
from grove.testing.conformance import BackendConformance, verdicts
from grove.testing.rules.differences import DifferenceRules


class Kit(BackendConformance):
    """The kit for the backend under test; a class of its own so that pytest does not collect it."""

    __test__ = False
    backend: ClassVar[Backend] = KaiBackend()
    queue_annotation: ClassVar[str] = QUEUE

    def contexts(self) -> Sequence[Context]:
        return [on(clusters.KAI_012)]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        leaves = [leaf for each in manifests for leaf in each["spec"]["subGroups"]]
        return sum(int(leaf.get("minMember", 0)) for leaf in leaves)

    def minima_of(self, manifests: Sequence[Manifest]) -> Mapping[str, int] | None:
        leaves = [leaf for each in manifests for leaf in each["spec"]["subGroups"]]
        return {leaf["name"]: leaf["minMember"] for leaf in leaves if "minMember" in leaf}

    def links_of(self, pod: Manifest) -> Sequence[str]:
        return [pod["metadata"]["annotations"][POD_GROUP_ANNOTATION]]


@dataclass(frozen=True)
class Case:
    backend: Callable[[], Backend]
    rule: Callable[[BackendConformance], None]


K = BackendConformance
CASES = {
    "translation differs each time": Case(NeverTheSame, K.test_the_same_gang_gives_the_same_objects),
    "objects without an owner": Case(Ownerless, K.test_objects_belong_to_the_gang_and_live_beside_it),
    "objects in another namespace": Case(Elsewhere, K.test_objects_belong_to_the_gang_and_live_beside_it),
    "objects without labels": Case(
        Unlabelled, K.test_objects_carry_the_labels_by_which_they_are_found_and_cleaned_up
    ),
    "too small a minimum": Case(BelowMinimum, K.test_objects_demand_what_the_gang_demands),
    "too big a minimum": Case(AboveMinimum, K.test_objects_demand_what_the_gang_demands),
    "names beyond the limit": Case(
        LongNames, K.test_objects_are_of_the_kinds_that_are_watched_and_have_names_of_their_own
    ),
    "kinds that are not watched": Case(
        Unwatched, K.test_objects_are_of_the_kinds_that_are_watched_and_have_names_of_their_own
    ),
    "two objects of one name": Case(
        Twins, K.test_objects_are_of_the_kinds_that_are_watched_and_have_names_of_their_own
    ),
    "a capability that is lost": Case(Boaster, K.test_what_is_declared_is_kept_without_loss),
    "a loss in silence": Case(Silent, K.test_what_is_not_declared_is_refused_or_reported),
    "a property forgotten": Case(Silent, K.test_every_property_of_a_gang_is_accounted_for),
    "a loss without a reason": Case(Unreasoned, K.test_whatever_is_not_enforced_has_a_reason_and_is_no_must),
    "a must accepted as a loss": Case(
        IgnoresRequired, K.test_whatever_is_not_enforced_has_a_reason_and_is_no_must
    ),
    "a required constraint accepted": Case(AcceptsSets, K.test_what_is_not_declared_is_refused_or_reported),
    "the plain gang refused": Case(RefusesAll, K.test_the_same_gang_gives_the_same_objects),
    "objects that change with every status": Case(
        ByVersion, K.test_nothing_but_its_spec_and_metadata_decides_what_a_gang_becomes
    ),
    "the gang changed": Case(Scribbles, K.test_translating_changes_neither_the_gang_nor_the_context),
    "an object handed out twice": Case(Recycles, K.test_translating_changes_neither_the_gang_nor_the_context),
    "the wrong mix": Case(WrongMix, K.test_each_podgroup_is_held_to_its_own_minimum_where_that_is_declared),
    "the sum alone": Case(OnlyTheSum, K.test_each_podgroup_is_held_to_its_own_minimum_where_that_is_declared),
    "an object that does not go": Case(Finalized, K.test_nothing_holds_an_object_back_when_its_gang_goes),
    "one object for all gangs": Case(OneForAll, K.test_two_gangs_share_no_object),
    "a podgroup of the past": Case(Remembers, K.test_a_podgroup_that_goes_takes_its_traces_along),
    "no gate": Case(Ungated, K.test_a_pod_gets_the_gate_and_the_scheduler_and_keeps_the_gates_of_others),
    "gates of others removed": Case(
        TakesGates, K.test_a_pod_gets_the_gate_and_the_scheduler_and_keeps_the_gates_of_others
    ),
    "the wrong scheduler": Case(
        ForgetsScheduler, K.test_a_pod_gets_the_gate_and_the_scheduler_and_keeps_the_gates_of_others
    ),
    "preparing twice adds twice": Case(Accumulates, K.test_preparing_a_pod_twice_is_preparing_it_once),
    "the argument changed": Case(
        Mutates, K.test_preparing_a_pod_leaves_its_argument_and_its_containers_alone
    ),
    "a container added": Case(
        AddsContainer, K.test_preparing_a_pod_leaves_its_argument_and_its_containers_alone
    ),
    "labels dropped": Case(DropsLabels, K.test_preparing_a_pod_leaves_its_argument_and_its_containers_alone),
    "a link to nothing": Case(Dangling, K.test_a_pod_points_only_to_objects_that_exist),
    "annotations dropped": Case(DropsNotes, K.test_what_the_user_wrote_into_a_pod_stays),
    "tolerations replaced": Case(Tolerant, K.test_what_the_user_wrote_into_a_pod_stays),
    "device claims dropped": Case(DropsClaims, K.test_what_the_user_wrote_into_a_pod_stays),
    "a grudge": Case(Grudge, K.test_an_old_complaint_never_contradicts_pods_that_are_placed),
    "no sentence": Case(Mute, K.test_every_unscheduled_reading_has_a_message),
    "a reason of many words": Case(Babbles, K.test_every_unscheduled_reading_has_a_message),
    "the objects changed while reading": Case(
        EditsStatus, K.test_reading_changes_nothing_and_says_the_same_again
    ),
    "a reader with a memory": Case(Impatient, K.test_reading_changes_nothing_and_says_the_same_again),
    "not its own scheduler": Case(Stranger, K.test_pods_that_ask_for_its_scheduler_are_its_own),
    "never satisfied": Case(Demanding, K.test_preconditions_are_empty_on_supported_clusters),
    "a word instead of a sentence": Case(
        Curt, K.test_on_an_empty_cluster_it_says_what_is_missing_or_does_without
    ),
    "not a word": Case(Secretive, K.test_on_an_empty_cluster_it_says_what_is_missing_or_does_without),
    "traits that fail": Case(OneClusterOnly, K.test_its_traits_are_known_on_any_cluster),
    "a key of its configuration that it does not name": Case(
        ReadsAnotherKey, K.test_it_reads_only_the_keys_of_its_config_that_it_names
    ),
    "events of everybody": Case(
        ReadsAllEvents, K.test_the_events_that_it_wants_read_are_those_of_one_component
    ),
    "pods replaced for nothing": Case(ReplacesPods, K.test_its_lifecycle_concerns_only_what_it_was_given),
    "levels lost": Case(
        ForgetsLevels, K.test_its_topology_object_says_what_the_binding_says_and_goes_with_it
    ),
    "a status that breaks the reader": Case(Fragile, K.test_reading_survives_any_status),
    "scheduled without pods": Case(Hallucinates, K.test_reading_survives_any_status),
    "scheduled below the minimum": Case(Optimist, K.test_a_gang_below_its_minimum_is_never_called_scheduled),
    "never scheduled": Case(Pessimist, K.test_a_gang_whose_minimum_is_bound_is_scheduled),
}


def kit_for(backend: Backend) -> BackendConformance:
    return type("KitForOne", (Kit,), {"backend": backend})()  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_broken_backend_is_caught(case: Case) -> None:
    with pytest.raises((AssertionError, TypeError, KeyError)):
        case.rule(kit_for(case.backend()))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_same_rule_passes_for_the_backend_unbroken(case: Case) -> None:
    assert case.rule(kit_for(KaiBackend())) is None  # type: ignore[func-returns-value]


def test_every_rule_of_the_kit_is_broken_here() -> None:
    rules = {name for name in dir(BackendConformance) if name.startswith("test_")}
    differences = {rule for rule in vars(DifferenceRules) if rule.startswith("test_")}
    assert rules - differences == {case.rule.__name__ for case in CASES.values()}
    assert differences == RULES_OF_LIARS


def test_objects_whose_minimum_the_kit_cannot_see_do_not_pass() -> None:
    class Blind(Kit):
        def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
            return None

    with pytest.raises(AssertionError, match="objects say None"):
        Blind().test_objects_demand_what_the_gang_demands()


def test_verdicts_name_the_rule_that_is_broken_and_why_without_pytest() -> None:
    broken = {each.sentence: each.why for each in verdicts(kit_for(OneForAll())) if not each.kept}
    assert list(broken) == ["two gangs share no object", "a pod points only to objects that exist"][::-1]
    assert "share ('scheduling.run.ai/v2alpha2', 'PodGroup', 'gangs')" in broken["two gangs share no object"]


def test_verdicts_run_every_rule() -> None:
    rules = [each for each in dir(BackendConformance) if each.startswith("test_")]
    found = list(verdicts(kit_for(KaiBackend())))
    assert [each.rule for each in found] == rules
    assert all(each.kept for each in found)


def test_a_rule_of_the_author_that_needs_pytest_is_not_taken_for_kept() -> None:
    class Fixtures(Kit):
        def test_with_a_fixture(self, tmp_path: str) -> None: ...

    (told,) = [each for each in verdicts(Fixtures()) if not each.kept]
    assert told.why == "has parameters, which only pytest can fill in"
