"""What YuniKorn reads on pods: the application they belong to, its task groups, and how long it reserves.

YuniKorn has no object for a gang. The first pod without gates defines the application, so every pod says the
same. An application starts as a gang only once: each start of a gang is an application of its own.
Task groups carry two labels of ours, which YuniKorn copies to the placeholders that it creates for them;
that is how Grove sees the placeholders without watching anybody else's pods.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from grove.api import labels
from grove.api.cliqueset import PodCliqueTemplate
from grove.api.gang import PodGang, PodGroup
from grove.api.pod import Pod
from grove.backends.base import Context, Marks
from grove.backends.shape import named
from grove.backends.yunikorn.queue import QUEUE, queue_of
from grove.backends.yunikorn.requests import effective_requests
from grove.errors import FieldError, InvalidConfiguration, InvalidInput
from grove.meta import Manifest

APPLICATION: Final = "yunikorn.apache.org/app-id"
TASK_GROUP: Final = "yunikorn.apache.org/task-group-name"
TASK_GROUPS: Final = "yunikorn.apache.org/task-groups"
POLICY: Final = "yunikorn.apache.org/schedulingPolicyParameters"

#: A year: a gang waits for room as long as it must, and gates may stay closed for a while before it.
DEFAULT_TIMEOUT: Final = 31_536_000
#: Once this share of the timeout has passed behind gates, it is given back.
_NOTABLE: Final = 0.01
#: YuniKorn adds to it in the names of placeholders.
_LIMIT: Final = 52
#: What decides where a pod may run, and hence where its placeholder must.
_PLACEMENT: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


def application_id(gang: PodGang, context: Context) -> str:
    """The gang's present application; ids are shared by all namespaces, and the revision tells them apart."""
    return named(gang.name, gang, context, _LIMIT)


def in_application(pod: Pod, gang: PodGang, context: Context) -> bool:
    """Whether a pod, a placeholder included, is part of the present start of the gang."""
    return pod.labels.get(APPLICATION, "") == application_id(gang, context)


def timeout_of(context: Context) -> int:
    """For how many seconds YuniKorn holds places for an incomplete gang; raises InvalidConfiguration."""
    value = context.config.get("placeholderTimeoutSeconds", DEFAULT_TIMEOUT)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidConfiguration(
            f"scheduler profile yunikorn: config.placeholderTimeoutSeconds is {value!r}; "
            "it must be a whole number of seconds, at least 1"
        )
    return value


def marks_of(pod: Manifest, podgroup: PodGroup, gang: PodGang, context: Context) -> Marks:
    """The labels and annotations of a new pod."""
    groups = [each for each in gang.spec.podgroups if each.min_replicas > 0]
    marks = {APPLICATION: application_id(gang, context)}
    if queue := queue_of(gang, context):
        marks[QUEUE] = queue
    if not groups:
        # Nothing that must be placed together: an ordinary application.
        return Marks(marks, {})
    annotations = {TASK_GROUPS: _written(groups, gang, context, pod), POLICY: _policy(timeout_of(context))}
    if podgroup.min_replicas > 0:
        annotations[TASK_GROUP] = podgroup.name
    return Marks(marks, annotations)


def renewed_marks(pod: Pod, gang: PodGang, context: Context, now: datetime) -> Marks:
    """What a pod must say now that its gate opens: the time behind the gate is given back."""
    groups = [each for each in gang.spec.podgroups if each.min_replicas > 0]
    if not groups or POLICY not in pod.annotations:
        return Marks()
    timeout, behind_gates = timeout_of(context), _age(pod, now)
    # YuniKorn counts from the pod's creation. Behind the gate the time has run for nobody.
    if behind_gates <= timeout * _NOTABLE:
        return Marks()
    return Marks(annotations={POLICY: _policy(timeout + behind_gates)})


def requests_of(podgroup: PodGroup, gang: PodGang, context: Context) -> Mapping[str, str]:
    """What each pod of a podgroup asks for; empty when that is not known."""
    template = _template(podgroup, gang, context)
    try:
        return effective_requests(template.spec.pod_spec) if template is not None else {}
    except ValueError:
        return {}


def _age(pod: Pod, now: datetime) -> int:
    created = pod.metadata.creation_timestamp
    return max(0, int((now - datetime.fromisoformat(created)).total_seconds())) if created else 0


def _policy(seconds: int) -> str:
    # The style Soft, YuniKorn's default, would place the pods one by one when the time is over.
    return f"placeholderTimeoutInSeconds={seconds} gangSchedulingStyle=Hard"


def _written(groups: list[PodGroup], gang: PodGang, context: Context, pod: Manifest) -> str:
    return msgspec.json.encode(list(_task_groups(groups, gang, context, pod))).decode()


def _task_groups(
    groups: list[PodGroup], gang: PodGang, context: Context, pod: Manifest
) -> Iterator[Manifest]:
    for podgroup in groups:
        template = _template(podgroup, gang, context)
        # Without its set a gang tells nothing about its other roles; then they are taken to be like this one.
        spec = template.spec.pod_spec if template is not None else pod.get("spec") or {}
        try:
            requests = effective_requests(spec)
        except ValueError as problem:
            raise InvalidInput([FieldError("spec.containers", f"resources: {problem}")]) from None
        marks = {labels.MANAGED_BY: labels.MANAGER, labels.POD_GANG: gang.name}
        if template is not None and _looks_at_pods(spec):
            marks = {**template.labels, **marks}
        yield {
            "name": podgroup.name,
            "minMember": podgroup.min_replicas,
            "minResource": requests,
            "labels": marks,
            **{key: spec[key] for key in _PLACEMENT if spec.get(key)},
        }


def _looks_at_pods(spec: Manifest) -> bool:
    """Whether labels of pods decide about the place: then placeholders need the role's labels too."""
    affinity = spec.get("affinity") or {}
    return bool(
        affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
        or spec.get("topologySpreadConstraints")
    )


def _template(podgroup: PodGroup, gang: PodGang, context: Context) -> PodCliqueTemplate | None:
    """The role that a podgroup's pods are made from: its name ends the podgroup's."""
    cliqueset = context.cliqueset
    if cliqueset is None or not podgroup.name.startswith(f"{cliqueset.name}-"):
        return None
    fitting = [each for each in cliqueset.template.cliques if podgroup.name.endswith(f"-{each.name}")]
    return max(fitting, key=lambda each: len(each.name), default=None)
