"""Which YuniKorn queue a gang goes to, and what becomes of it under YuniKorn's own configuration.

A label wins over an annotation, the full key over the old one; the gang (which mirrors its set) over the
roles; the roles over the profile. A gang that names no queue is left to YuniKorn's placement rules.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import yaml

from grove.api import names
from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.api.gang import PodGang
from grove.backends.base import Capability, Context, Fidelity, Treatment
from grove.backends.untyped import mapping, mappings
from grove.errors import FieldError, Waiting
from grove.meta import Object, resource

QUEUE: Final = "yunikorn.apache.org/queue"
#: The older spelling: a label that YuniKorn still reads.
OLD_QUEUE: Final = "queue"

CONFIG_MAPS: Final = resource("", "v1", "ConfigMap")
CONFIG_MAP: Final = "yunikorn-configs"
NAMESPACE: Final = "yunikorn"

_PLACES: Final = (("labels", QUEUE), ("annotations", QUEUE), ("labels", OLD_QUEUE))
#: YuniKorn puts the queue into a label of its placeholders; one that is no label value costs the gang.
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


def queue_of(gang: PodGang, context: Context) -> str:
    """The queue of a gang; empty when nobody names one."""
    cliqueset = context.cliqueset
    return (
        _named(gang)[1]
        or (_named(cliqueset)[1] if cliqueset else "")
        or (_agreed(cliqueset) if cliqueset else "")
        or str(context.config.get("queue") or "")
    )


def queue_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Names that YuniKorn cannot use, and roles whose queue is not that of the others."""
    place, wanted = _named(cliqueset)
    said_by = "the PodCliqueSet"
    if wanted and (problem := name_problem(wanted)):
        yield FieldError(f"metadata.{place}", problem)
    for index, clique in enumerate(cliqueset.template.cliques):
        place, queue = _named(clique)
        where = f"spec.template.cliques[{index}].{place}"
        if queue and (problem := name_problem(queue)):
            yield FieldError(where, problem)
        elif queue and not wanted:
            wanted, said_by = queue, f"clique {clique.name!r}"
        elif queue and queue != wanted:
            yield FieldError(
                where, f"is {queue!r} but {said_by} says {wanted!r}; all pods of a gang go to one queue"
            )


def name_problem(queue: str) -> str:
    """What is wrong with a queue's name; empty when nothing is."""
    if len(queue) <= names.LABEL_LIMIT and _NAME.fullmatch(queue):
        return ""
    return (
        f"is {queue!r}, which is not a valid label value (at most 63 of letters, digits, '-', '_', '.'); "
        "YuniKorn could not create the placeholders of the gang"
    )


def _named(owner: Object | PodCliqueTemplate) -> tuple[str, str]:
    """Where an object names its queue, and the name."""
    for kind, key in _PLACES:
        if queue := getattr(owner, kind).get(key):
            return f"{kind}[{key}]", str(queue)
    return "", ""


def _agreed(cliqueset: PodCliqueSet) -> str:
    """The queue that the roles name, if they name exactly one."""
    queues = {queue for _, queue in map(_named, cliqueset.template.cliques) if queue}
    return queues.pop() if len(queues) == 1 else ""


# YuniKorn's configuration -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueConfiguration:
    """What `queues.yaml` says about placing applications, as far as a gang is concerned."""

    #: Names of the placement rules in their order, and which of them may create queues.
    rules: tuple[tuple[str, bool], ...] = (("tag", True),)
    #: Configured queues by full path: how a leaf sorts its applications; None for a parent.
    queues: Mapping[str, str | None] = field(default_factory=dict)


def configuration(context: Context) -> QueueConfiguration | None:
    """YuniKorn's queues; None while they are not known, or cannot be read."""
    found = context.observed.get(CONFIG_MAPS)
    if found is None:
        return None
    texts = [str((each.get("data") or {}).get("queues.yaml") or "") for each in found]
    return _parsed(next((text for text in texts if text), ""))


def queue_treatments(gang: PodGang, context: Context) -> tuple[Treatment, ...]:
    """What becomes of the queue that a gang names; raises Waiting for one that would be refused."""
    queue, known = queue_of(gang, context), configuration(context)
    if not queue or known is None:
        return ()
    rules = [name for name, _ in known.rules]
    if "provided" not in rules:
        reason = (
            f"YuniKorn ignores the queue {queue!r}: its placement rules ({', '.join(rules)}) lack "
            f"`provided`; add it to queues.yaml in the ConfigMap {CONFIG_MAP}"
        )
        return (Treatment(Capability.QUEUE, Fidelity.NOT_EXPRESSIBLE, reason),)
    if rules[0] != "provided":
        reason = f"YuniKorn may ignore the queue {queue!r}: the rule `{rules[0]}` comes before `provided`"
        return (Treatment(Capability.QUEUE, Fidelity.APPROXIMATED, reason),)
    path = queue if queue.startswith("root.") else f"root.{queue.replace('.', '_dot_')}"
    _refuse_unusable(gang, path.lower(), known, may_create=dict(known.rules)["provided"])
    return (Treatment(Capability.QUEUE, Fidelity.ENFORCED),)


def _refuse_unusable(gang: PodGang, path: str, known: QueueConfiguration, *, may_create: bool) -> None:
    """YuniKorn would reject the gang's application for good; better wait until the queue can take it."""
    where = f"queues.yaml in the ConfigMap {CONFIG_MAP}"
    if path not in known.queues:
        if may_create:
            return
        raise Waiting(f"gang {gang.key} waits for the YuniKorn queue {path!r}; add it to {where}")
    sorting = known.queues[path]
    if sorting is None:
        raise Waiting(f"gang {gang.key}: the YuniKorn queue {path!r} has queues below it; name one of them")
    if sorting not in ("", "fifo"):
        raise Waiting(
            f"gang {gang.key}: the YuniKorn queue {path!r} sorts applications by {sorting!r}, and gangs need "
            f"application.sort.policy fifo; change {where}"
        )


@lru_cache(maxsize=8)
def _parsed(text: str) -> QueueConfiguration | None:
    if not text:
        return QueueConfiguration()
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    partitions = mappings(mapping(document).get("partitions"))
    partition = next((each for each in partitions if each.get("name") in (None, "", "default")), None)
    if partition is None:
        return None
    rules = tuple(
        (str(each.get("name") or ""), bool(each.get("create")))
        for each in mappings(partition.get("placementrules"))
    )
    queues: dict[str, str | None] = {}
    for each in mappings(partition.get("queues")):
        _collect(each, "", queues)
    return QueueConfiguration(rules or (("provided", False),), queues)


def _collect(queue: Mapping[str, Any], above: str, found: dict[str, str | None]) -> None:
    path = f"{above}{queue.get('name') or ''}".lower()
    children = mappings(queue.get("queues"))
    sorting = str(mapping(queue.get("properties")).get("application.sort.policy") or "")
    found[path] = None if children or queue.get("parent") or path == "root" else sorting
    for each in children:
        _collect(each, f"{path}.", found)
