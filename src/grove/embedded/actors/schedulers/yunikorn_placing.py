"""One look at one application: which pods get which nodes now. Books in the ledger, writes nothing.

While it reserves, each placeholder takes a node as soon as there is one. When it runs, real pods take over
from placeholders of their group and of at least their size; all others are placed like ordinary pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grove.embedded.actors.objects import annotations_of, is_deleting, key_of, node_of, uid_of
from grove.embedded.actors.schedulers.desk import Desk, Outcome, Refusal
from grove.embedded.actors.schedulers.placement import Trial
from grove.embedded.actors.schedulers.yunikorn_application import Application, State
from grove.embedded.actors.schedulers.yunikorn_rules import TASK_GROUP, WAITING, is_placeholder
from grove.embedded.actors.schedulers.yunikorn_shares import Share, refusals
from grove.embedded.errors import Manifest


@dataclass(slots=True)
class Decision:
    """All that one look wants written."""

    outcome: Outcome = field(default_factory=Outcome)
    dropped: list[Manifest] = field(default_factory=list)
    """Placeholders to delete, before anything is bound."""
    started: bool = False
    failed: bool = False
    arm_timeout: bool = False
    told: list[tuple[Manifest, str]] = field(default_factory=list)
    """What events say about pods that were not placed."""


def decide(
    application: Application, pods: Sequence[Manifest], desk: Desk, now: float, share: Share
) -> Decision:
    """What happens to an application's pods; `pods` are those without gates, in the order of their coming.

    `share` is what its queue has left.
    """
    decision = Decision()
    placeholders = [pod for pod in pods if is_placeholder(pod) and not is_deleting(pod)]
    real = [pod for pod in pods if not is_placeholder(pod)]
    if application.state is State.RESERVING:
        _reserve(application, placeholders, desk, decision, share)
        if decision.arm_timeout and now >= application.deadline:
            # Counted from the pod that started it, however long that sat behind gates.
            application.expired, decision.arm_timeout = True, False
    if application.expired:
        _expire(application, placeholders, decision)
        placeholders = []
    if application.state is State.RUNNING:
        _run(application, real, placeholders, desk, decision, share)
    return decision


def _reserve(
    application: Application, placeholders: Sequence[Manifest], desk: Desk, decision: Decision, share: Share
) -> None:
    _place(application, [pod for pod in placeholders if not _node(pod, desk)], desk, decision, share)
    placed = application.by_group(pod for pod in placeholders if _node(pod, desk))
    if placed and not application.armed:
        application.armed = decision.arm_timeout = True
    if all(len(placed.get(group.name, ())) >= group.minimum for group in application.groups):
        application.state = State.RUNNING
        decision.started = True


def _expire(application: Application, placeholders: Sequence[Manifest], decision: Decision) -> None:
    """The time is over: places that nobody took are given back, and a gang that is incomplete ends."""
    application.expired = False
    if application.state is State.RUNNING:
        decision.dropped += placeholders
        return
    decision.outcome = Outcome()
    if application.hard:
        decision.failed = True
        return
    decision.dropped += placeholders
    application.give_up_gang()


def _run(
    application: Application,
    real: Sequence[Manifest],
    placeholders: Sequence[Manifest],
    desk: Desk,
    decision: Decision,
    share: Share,
) -> None:
    places = list(placeholders)
    ordinary: list[Manifest] = []
    for pod in real:
        if _node(pod, desk) or is_deleting(pod):
            continue
        place = _place_for(pod, places, desk)
        if place is None:
            ordinary.append(pod)
            continue
        places.remove(place)
        decision.dropped.append(place)
        node = _node(place, desk)
        desk.ledger.release(key_of(place))
        shape = desk.shape(pod)
        if node in {each.name for each in desk.ledger.candidates(shape)} and desk.ledger.fits(shape, node):
            desk.ledger.take(key_of(pod), shape, node)
            decision.outcome.binds.append((pod, node))
        else:
            # Its place is given back, and it must look for another one by itself.
            ordinary.append(pod)
    _place(application, ordinary, desk, decision, share)


def _place_for(pod: Manifest, places: Sequence[Manifest], desk: Desk) -> Manifest | None:
    """A placeholder of the pod's group; one that is too small is taken away all the same."""
    group = annotations_of(pod).get(TASK_GROUP)
    return next((p for p in places if group and annotations_of(p).get(TASK_GROUP) == group), None)


def _place(
    application: Application,
    pods: Sequence[Manifest],
    desk: Desk,
    decision: Decision,
    share: Share,
) -> None:
    trial = Trial(desk.ledger)
    for pod in pods:
        uid, shape = uid_of(pod), desk.shape(pod)
        if not share.has(shape):
            # No node is asked; on the pod itself something is said only if the nodes are in the way.
            decision.outcome.waits = True
            if share.allows(shape):
                decision.outcome.refusals.append(Refusal(pod, WAITING))
            if uid not in application.beyond_share:
                application.beyond_share.add(uid)
                decision.told.append((pod, share.refusal(uid, shape)))
            continue
        if uid in application.beyond_share:
            application.beyond_share.discard(uid)
            decision.told.append((pod, share.relief(uid)))
        node = trial.place(key_of(pod), shape)
        if node is not None:
            decision.outcome.binds.append((pod, node))
            share.take(shape)
            continue
        decision.outcome.refusals.append(Refusal(pod, WAITING))
        decision.outcome.waits = True
        if said := refusals(uid, shape, desk.ledger):
            decision.told.append((pod, said))


def _node(pod: Manifest, desk: Desk) -> str:
    return node_of(pod) or desk.ledger.node_for(key_of(pod)) or ""
