"""What a set loses when its gangs are translated for their scheduler, before any of them exists. Pure.

One gang of each shape is translated: the base gang of the first replica, and the first scaled gang of each
scaling group. What the controllers tell in the conditions of gangs is known here when the set is written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Context, Fidelity, Verdict
from grove.errors import FieldError, Unsupported, Waiting
from grove.meta import Manifest, ObjectMeta
from grove.plan.children import CliqueSetState
from grove.plan.children.gangs import Gangs


@dataclass(frozen=True, slots=True)
class Losses:
    """What a scheduler refuses of a set's gangs, and what it does not keep or waits for."""

    errors: tuple[FieldError, ...] = ()
    notices: tuple[str, ...] = ()


def losses_of(
    cliqueset: PodCliqueSet,
    backend: Backend,
    context: Context,
    binding: ClusterTopologyBinding | None,
    references: Mapping[str, str],
) -> Losses:
    """What becomes of the gangs of an accepted set in translation."""
    seen = CliqueSetState(cliqueset, topology=binding, backend=backend.name, references=references)
    errors: list[FieldError] = []
    notices: list[str] = []
    for gang in _gangs(seen):
        try:
            treatments = backend.translate(gang, context).treatments
            word = backend.read(*_about_to_be_placed(gang), context)
        except Unsupported as refusal:
            errors.append(FieldError("spec.template", str(refusal)))
        except Waiting as wait:
            notices.append(str(wait))
        except Exception:
            # A defect of a backend is told where gangs are made: it must not keep anybody from writing.
            continue
        else:
            notices += [
                f"{backend.name}: {each.property} {each.fidelity}: {each.reason}"
                for each in treatments
                if each.fidelity is not Fidelity.ENFORCED
            ]
            if word.verdict is Verdict.UNSCHEDULABLE:
                # How many pods are placed is no news.
                notices.append(word.message.partition("; ")[2] or word.message)
    return Losses(tuple(dict.fromkeys(errors)), tuple(dict.fromkeys(notices)))


def _gangs(seen: CliqueSetState) -> Iterator[PodGang]:
    layout, gangs = seen.layout(0), Gangs(seen)
    planned = [layout.base_gang(0)]
    for name, _ in layout.groups(0):
        scaled = layout.find_gang(0, f"{name}-0")
        if scaled is not None:
            planned.append(scaled)
    for each in planned:
        yield gangs.row(each).view(PodGang)


def _about_to_be_placed(gang: PodGang) -> tuple[PodGang, tuple[Manifest, ...], list[Pod]]:
    """The gang with one pod for each podgroup that waits for a node, and no word of the scheduler yet.

    All that can be held against it is what the cluster lacks, such as its queue.
    """
    replace = msgspec.structs.replace
    groups = tuple(replace(group, min_replicas=1) for group in gang.spec.podgroups)
    pods = [
        Pod(
            metadata=ObjectMeta(
                name=group.name,
                namespace=gang.namespace,
                uid=group.name,
                labels={labels.POD_CLIQUE: group.name, labels.POD_GANG: gang.name, labels.POD_INDEX: "0"},
            )
        )
        for group in groups
    ]
    return replace(gang, spec=replace(gang.spec, podgroups=groups)), (), pods
