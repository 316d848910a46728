"""What KAI does with a gang that runs below its minimum, also where a release cannot be told.

KAI ends what is left of such a gang after a minute; Grove's termination delay shall decide. A release with
`stalenessGracePeriod` is told so. An older one gets a minimum that the pods on nodes fulfil: it ends nothing,
and places a pod that was lost by itself. The gang and `grove doctor` say which it is.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from grove.api.gang import PodGang
from grove.backends.base import Context, Fidelity, Treatment
from grove.backends.shape import was_placed

STALENESS_PATH: Final = "spec.stalenessGracePeriod"
#: In the form of `Cluster.fields`.
STALENESS_FIELD: Final = f"podgroups.scheduling.run.ai:{STALENESS_PATH}"
#: What a gang calls it in its condition `TranslationLoss`.
STALENESS: Final = "staleness"
NEVER_STALE: Final = "-1s"

LACKING: Final = (
    "this release of KAI has no stalenessGracePeriod (0.17 has) and ends what is left of a gang that is "
    "below its minimum for a minute; so a placed gang that lacks pods gets a lower minimum, and a lost pod "
    "is placed by itself"
)


def is_told(context: Context) -> bool:
    """Whether KAI can be told what to do with a gang below its minimum."""
    return STALENESS_FIELD in context.cluster.fields


def grace_period(context: Context) -> str:
    """What it is told."""
    return _asked(context) or NEVER_STALE


def not_stale(gang: PodGang, context: Context) -> PodGang:
    """The gang with minima that its pods on nodes fulfil, where KAI would evict them otherwise.

    That is so when a pod is lost, and when somebody raises the minimum.
    """
    if is_told(context) or not was_placed(gang, context):
        return gang
    podgroups = tuple(
        replace(each, min_replicas=min(each.min_replicas, max(1, context.bound.get(each.name, 0))))
        for each in gang.spec.podgroups
    )
    return replace(gang, spec=replace(gang.spec, podgroups=podgroups))


def staleness_treatments(context: Context) -> Iterator[Treatment]:
    """That the minimum stands in for a setting of KAI, and that the profile's has no effect.

    The same for every gang and at every time: a condition that came with a lost pod would cost a write.
    """
    if is_told(context):
        return
    if asked := _asked(context):
        reason = f"the profile's stalenessGracePeriod {asked} has no effect: {LACKING}"
        yield Treatment(STALENESS, Fidelity.NOT_EXPRESSIBLE, reason)
    else:
        yield Treatment(STALENESS, Fidelity.APPROXIMATED, LACKING)


def _asked(context: Context) -> str:
    return str(context.config.get("stalenessGracePeriod") or "")
