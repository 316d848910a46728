"""Which replica of a set has its turn in an update, and which template each replica follows."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import msgspec
import pytest
from tests.plan.looks import again, grown

from grove.api import labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.meta import Manifest, Object
from grove.plan.children import CliqueSetState
from grove.plan.children.cliques import has_template
from grove.plan.update.progress import update_progress
from grove.plan.update.replicas import SetUpdate, plan_update
from grove.plan.update.state import UpdateState
from grove.plan.update.words import update_condition
from grove.testing import make

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
R = TypeVar("R", bound=Object)
BEGAN = "2026-01-01T11:00:00Z"


def templates(image: str) -> list[Manifest]:
    return [make.template("w", 1, pod={"containers": [{"name": "main", "image": image}]})]


def asked(
    image: str,
    replicas: int,
    *,
    turns: Collection[int] | None = None,
    strategy: Manifest | None = None,
    paused: bool = False,
    ended: bool = False,
    recorded: str = "",
) -> PodCliqueSet:
    """A set that asks for an image; with `turns` an update of it has begun."""
    manifest = make.cliqueset_manifest(
        "t",
        templates(image),
        replicas=replicas,
        strategy=strategy or {},
        annotations={labels.UPDATE_PAUSED: "true"} if paused else {},
    )
    manifest["status"] = {"currentGenerationHash": recorded or None}
    if turns is not None:
        manifest["status"]["updateProgress"] = {
            "updateStartedAt": BEGAN,
            "updateEndedAt": BEGAN if ended else None,
            "currentlyUpdating": [{"replicaIndex": each, "updateStartedAt": BEGAN} for each in turns],
        }
    return make.view(PodCliqueSet, manifest)


def world(before: int, image: str, *, updated: Iterable[int] = ()) -> CliqueSetState:
    """A set of the first image whose children exist; some of its replicas follow the second one."""
    old, new = grown(asked("one", before)), grown(asked("two", before))
    chosen = {f"t-{each}" for each in updated} | {f"t-{each}-w" for each in updated}
    seen = again(
        old,
        asked(image, before),
        gangs={name: (new if name in chosen else old).gangs[name] for name in old.gangs},
        cliques={name: (new if name in chosen else old).cliques[name] for name in old.cliques},
    )
    revisions = {**old.recorded, **new.recorded}
    kind = next(each for each in old.children if each.kind == "ControllerRevision")
    return replace(seen, children={**seen.children, kind: revisions})


def state(
    seen: CliqueSetState,
    cliqueset: PodCliqueSet,
    *,
    unplaced: Collection[int] = (),
    broken: Collection[int] = (),
    lost: Collection[int] = (),
    pods_of_the_first: Collection[int] = (),
    untold: Collection[int] = (),
) -> UpdateState:
    """What an update looks at; every replica runs one pod of what its clique follows, unless named."""
    first = grown(asked("one", 1)).cliques["t-0-w"].labels[labels.POD_TEMPLATE_HASH]

    def number(clique: PodClique) -> int:
        return int(clique.labels[labels.SET_REPLICA_INDEX])

    def pods_of(clique: PodClique) -> list[Pod]:
        replica = number(clique)
        hashed = first if replica in pods_of_the_first else clique.labels[labels.POD_TEMPLATE_HASH]
        ready = replica not in broken
        node = "" if replica in unplaced else "n"
        marks = {labels.POD_TEMPLATE_HASH: hashed}
        return [make.pod(clique.name, 0, labels=marks, node=node, ready=ready and bool(node))]

    def told(clique: PodClique) -> PodClique:
        ready = int(number(clique) not in broken and number(clique) not in unplaced)
        updated = int(number(clique) not in untold)
        status = msgspec.structs.replace(clique.status, ready_replicas=ready, updated_replicas=updated)
        return msgspec.structs.replace(clique, status=status)

    def restarted(gang: PodGang) -> PodGang:
        if int(gang.name.rpartition("-")[2]) not in lost:
            return gang
        annotations = {**gang.annotations, labels.RESTARTS: "1"}
        return msgspec.structs.replace(
            gang, metadata=msgspec.structs.replace(gang.metadata, annotations=annotations)
        )

    return UpdateState(
        cliqueset,
        seen.layout(0),
        {name: told(clique) for name, clique in seen.cliques.items()},
        {name: restarted(gang) for name, gang in seen.gangs.items()},
        seen.groups,
        seen.recorded,
        placed=[name for name in seen.gangs if int(name.rpartition("-")[2]) not in unplaced],
        pods_of=pods_of,
    )


@dataclass(frozen=True)
class Case:
    cliqueset: PodCliqueSet
    updated: Collection[int] = ()
    unplaced: Collection[int] = ()
    broken: Collection[int] = ()
    lost: Collection[int] = ()
    outdated: Collection[int] = ()
    #: Replicas of whose new pods the statuses of their cliques do not tell yet.
    untold: Collection[int] = ()
    want_turns: tuple[int, ...] = ()
    want_staying: Collection[int] = ()
    want_new: tuple[int, ...] | None = None
    want_finished: bool = False


def limits(**said: object) -> Manifest:
    return {"type": "RollingRecreate", "rollingRecreate": said}


CASES = {
    "when all follow it is not over before their cliques say so": Case(
        asked("two", 2, turns=[1]), updated={0, 1}, untold={1}, want_turns=(1,)
    ),
    "nor where nobody had a turn": Case(asked("two", 2, turns=[]), updated={0, 1}, untold={1}),
    "a replica that does not serve anyway is not waited for": Case(
        asked("two", 2, turns=[]), updated={0, 1}, unplaced={1}, untold={1}, want_finished=True
    ),
    "what is over stays over": Case(
        asked("two", 2, turns=[], ended=True), updated={0, 1}, untold={1}, want_finished=True
    ),
    "a set that follows has nothing to do": Case(asked("one", 3), want_finished=True),
    "the first replica gets its turn, and all stay until the status says so": Case(
        asked("two", 3), want_turns=(0,), want_new=(0,), want_staying={0, 1, 2}
    ),
    "one that has its turn follows, the others stay": Case(
        asked("two", 3, turns=[0]), want_turns=(0,), want_staying={1, 2}
    ),
    "a turn lasts until the replica is available again": Case(
        asked("two", 3, turns=[0]), updated={0}, broken={0}, want_turns=(0,), want_staying={1, 2}
    ),
    "and until all of its pods follow": Case(
        asked("two", 3, turns=[0]), updated={0}, outdated={0}, want_turns=(0,), want_staying={1, 2}
    ),
    "then the next one has it": Case(
        asked("two", 3, turns=[0]), updated={0}, want_turns=(1,), want_new=(1,), want_staying={1, 2}
    ),
    "when all follow it is over": Case(asked("two", 3, turns=[2]), updated={0, 1, 2}, want_finished=True),
    "a replica that does not serve comes first": Case(
        asked("two", 3), broken={2}, want_turns=(2,), want_new=(2,), want_staying={0, 1, 2}
    ),
    "one without pods on nodes follows at once and takes nobody's turn": Case(
        asked("two", 3), unplaced={2}, want_turns=(0,), want_new=(0,), want_staying={0, 1}
    ),
    "none goes down while one that follows is broken": Case(
        asked("two", 3, turns=[]), updated={0}, broken={0}, want_staying={1, 2}
    ),
    "none goes down while one is down that lost all of its pods": Case(
        asked("two", 3), unplaced={2}, lost={2}, want_staying={0, 1}
    ),
    "a revert leaves alone what was not touched": Case(
        asked("one", 3, turns=[0]), updated={0}, want_turns=(0,), want_staying=()
    ),
    "two at a time, where two may be down": Case(
        asked("two", 4, strategy=limits(maxUnavailable=2)),
        want_turns=(0, 1),
        want_new=(0, 1),
        want_staying={0, 1, 2, 3},
    ),
    "half of them, where half may be down": Case(
        asked("two", 4, strategy=limits(maxUnavailable="50%"), turns=[0, 1]),
        updated={0},
        want_turns=(1, 2),
        want_new=(2,),
        want_staying={2, 3},
    ),
    "none before the added one serves, where none may be down": Case(
        asked("two", 2, strategy=limits(maxUnavailable=0, maxSurge=1)), want_staying={0, 1}
    ),
    "nothing while it is paused, not even what waits": Case(
        asked("two", 3, paused=True), unplaced={2}, want_staying={0, 1, 2}
    ),
    "a paused turn is kept": Case(
        asked("two", 3, paused=True, turns=[1]), want_turns=(1,), want_staying={0, 2}
    ),
    "with OnDelete all follow and nobody has a turn": Case(
        asked("two", 3, strategy={"type": "OnDelete"}, turns=[0])
    ),
    "a turn of a replica that was scaled away is over": Case(
        asked("two", 2, turns=[2]), updated={0, 1}, want_finished=True
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_replicas_follow_one_by_one(case: Case) -> None:
    found = planned(case)
    assert found.turns == case.want_turns
    assert set(found.staying) == set(case.want_staying)
    assert found.new_turns == (case.want_new or ())
    assert found.finished is case.want_finished


def planned(case: Case) -> SetUpdate:
    seen = world(case.cliqueset.spec.replicas, "two", updated=case.updated)
    return plan_update(
        state(
            seen,
            case.cliqueset,
            unplaced=case.unplaced,
            broken=case.broken,
            lost=case.lost,
            pods_of_the_first=case.outdated,
            untold=case.untold,
        )
    )


def test_a_replica_that_stays_is_built_from_what_was_recorded() -> None:
    found = planned(Case(asked("two", 2, turns=[0])))
    ((staying, first),) = [(each, found.revision(each)) for each in found.staying]
    assert staying == 1
    assert first is not None
    assert first.template.cliques[0].spec.pod_spec["containers"][0]["image"] == "one"
    assert found.revision(0) == found.present


def test_a_template_that_nobody_recorded_is_not_made_up() -> None:
    seen = world(2, "two")
    known = state(seen, asked("two", 2, turns=[0]))
    lost = UpdateState(
        known.cliqueset, known.layout, known.cliques, known.gangs, placed=known.placed, pods_of=known.pods_of
    )
    assert plan_update(lost).revision(1) is None


def forged(seen: CliqueSetState) -> CliqueSetState:
    """The same with another image under the name of the first record."""
    kind = next(each for each in seen.children if each.kind == "ControllerRevision")
    kept = grown(asked("three", 1)).recorded.values()
    (other,) = [each for each in kept if "three" in repr(each.data)]
    records = {
        name: msgspec.structs.replace(each, data=other.data) if "one" in repr(each.data) else each
        for name, each in seen.recorded.items()
    }
    return replace(seen, children={**seen.children, kind: records})


def test_a_record_that_holds_another_template_than_it_is_named_for_is_not_believed() -> None:
    seen = forged(world(2, "two"))
    known = replace(state(seen, asked("two", 2, turns=[0])), has=partial(has_template, seen))
    found = plan_update(known)
    assert found.revision(1) is None
    assert [each.name for each in found.disbelieved] == [names.template_revision("t", ONE)]
    assert plan_update(replace(known, recorded={})).disbelieved == [], "that there is none is no surprise"


def test_a_record_whose_name_an_earlier_release_made_is_known_by_what_its_followers_have() -> None:
    seen, opaque = world(2, "two"), "madebyothers"
    records = {names.template_revision("t", opaque): seen.recorded[names.template_revision("t", ONE)]}

    def following(item: R) -> R:
        annotations = {**item.metadata.annotations, labels.TEMPLATE_REVISION: opaque}
        metadata = msgspec.structs.replace(item.metadata, annotations=annotations)
        return msgspec.structs.replace(item, metadata=metadata)

    known = state(seen, asked("two", 2, turns=[0]))
    known = replace(
        known,
        recorded={**seen.recorded, **records},
        gangs={name: following(each) for name, each in known.gangs.items()},
        cliques={name: following(each) for name, each in known.cliques.items()},
        has=partial(has_template, seen),
    )
    believed = plan_update(known).revision(1)
    assert believed is not None
    assert believed.template.cliques[0].spec.pod_spec["containers"][0]["image"] == "one"
    assert plan_update(replace(known, cliques={})).revision(1) is None, "nothing tells what it should be"


ONE, TWO = (
    plan_update(UpdateState(asked(each, 1), grown(asked("one", 1)).layout(0))).present.hash
    for each in ("one", "two")
)


def test_the_status_tells_when_an_update_began_whose_turn_it_is_and_when_it_ended() -> None:
    begun = update_progress(planned(Case(asked("two", 2, recorded=ONE))), now=NOW)
    assert begun is not None
    assert begun["updateStartedAt"] == "2026-01-01T12:00:00Z"
    assert begun["updateEndedAt"] is None
    assert begun["currentlyUpdating"] == [{"replicaIndex": 0, "updateStartedAt": "2026-01-01T12:00:00Z"}]
    assert (begun["updatedPodCliquesCount"], begun["totalPodCliquesCount"]) == (0, 2)
    later = update_progress(planned(Case(asked("two", 2, recorded=TWO, turns=[0]), updated={0})), now=NOW)
    assert later is not None
    assert later["updateStartedAt"] == BEGAN
    assert [each["replicaIndex"] for each in later["currentlyUpdating"]] == [1]
    over = update_progress(planned(Case(asked("two", 2, recorded=TWO, turns=[1]), updated={0, 1})), now=NOW)
    assert over is not None
    assert (over["updateEndedAt"], over["currentlyUpdating"]) == ("2026-01-01T12:00:00Z", None)


def test_a_hash_of_another_operator_is_replaced_without_an_update() -> None:
    assert update_progress(planned(Case(asked("one", 2, recorded="of-somebody-else"))), now=NOW) is None


def test_with_on_delete_the_status_says_at_once_that_it_ended() -> None:
    strategy = {"type": "OnDelete"}
    told = update_progress(planned(Case(asked("two", 2, strategy=strategy, recorded=ONE))), now=NOW)
    assert told is not None
    assert told["updateStartedAt"] == told["updateEndedAt"] == "2026-01-01T12:00:00Z"
    assert told["currentlyUpdating"] is None


def test_the_set_says_which_replica_is_updated_and_what_holds_the_update_up() -> None:
    at_work = update_condition(planned(Case(asked("two", 3, turns=[0]), updated={0}, broken={0})))
    assert at_work is not None
    assert at_work.message.startswith("replica 0 is being updated")
    held = update_condition(planned(Case(asked("two", 3, turns=[]), updated={0}, broken={0})))
    assert held is not None
    assert "replica 0 must be available again first" in held.message
    surge = limits(maxUnavailable=0, maxSurge=1)
    added = update_condition(planned(Case(asked("two", 3, strategy=surge))))
    assert added is not None
    assert "surplus replica 3 must be available first" in added.message
    paused = update_condition(planned(Case(asked("two", 3, paused=True))))
    assert paused is not None
    assert (paused.reason, labels.UPDATE_PAUSED in paused.message) == ("Paused", True)
    assert update_condition(planned(Case(asked("one", 3)))) is None


def test_until_its_template_is_recorded_the_set_says_what_must_be_made_first() -> None:
    case = Case(asked("two", 2))
    seen = world(2, "two")
    (missing,) = [name for name, each in seen.recorded.items() if "two" in repr(each.data)]
    kind = next(each for each in seen.children if each.kind == "ControllerRevision")
    kept = {name: each for name, each in seen.recorded.items() if name != missing}
    without = replace(seen, children={**seen.children, kind: kept})
    told = update_condition(plan_update(state(without, case.cliqueset)))
    assert told is not None
    assert told.message == f"ControllerRevision {missing} must be made first"
