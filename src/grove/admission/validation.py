"""Whether a PodCliqueSet may be stored: `validate` lists everything wrong with it, field by field.

Expects a set that `default` has filled in. The rules about names, autoscaling, startup order, shared
claims and topology stand in modules of their own; here are the counts and what Grove cannot allow in a pod
spec.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from grove.admission.autoscaling import Bounds, validate_autoscaling
from grove.admission.naming import CLIQUES, GROUPS, TEMPLATE, validate_names
from grove.admission.order import validate_order
from grove.admission.pod_shape import misshapen
from grove.admission.sharing import validate_sharing
from grove.admission.topology import validate_topology
from grove.api import durations
from grove.api.clique import PodCliqueSpec
from grove.api.cliqueset import PodCliqueSet, ScalingGroupConfig
from grove.errors import FieldError
from grove.meta import Manifest
from grove.plan.update.budget import validate_budget
from grove.words import counted

_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_MIN_OVER: Final = "minAvailable must not be greater than replicas"


def validate(cliqueset: PodCliqueSet, *, new: bool = False) -> list[FieldError]:
    """Everything wrong with a set by itself, each error once, in the order of the document.

    `new` adds the rules that sets from earlier releases need not keep.
    """
    errors = [
        *validate_names(cliqueset),
        *_counts(cliqueset),
        *validate_budget(cliqueset),
        *validate_order(cliqueset),
        *_cliques(cliqueset),
        *_groups(cliqueset),
        *validate_sharing(cliqueset),
        *validate_topology(cliqueset, new=new),
    ]
    return list(dict.fromkeys(errors))


def _counts(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    if cliqueset.spec.replicas < 0:
        yield FieldError(
            "spec.replicas", f"must be greater than or equal to 0; got {cliqueset.spec.replicas}"
        )
    if not cliqueset.template.cliques:
        yield FieldError(CLIQUES, "at least one PodClique must be defined")
    delay = cliqueset.template.termination_delay
    if delay is not None:
        field = f"{TEMPLATE}.terminationDelay"
        try:
            if durations.parse(delay).total_seconds() <= 0:
                yield FieldError(field, f"must be greater than 0; got {delay}")
        except ValueError as error:
            yield FieldError(field, str(error))


def _cliques(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    for index, clique in enumerate(cliqueset.template.cliques):
        field = f"{CLIQUES}[{index}]"
        yield from _metadata_keys(f"{field}.labels", clique.labels, values=True)
        yield from _metadata_keys(f"{field}.annotations", clique.annotations, values=False)
        yield from _clique_counts(f"{field}.spec", clique.spec)
        yield from validate_pods(f"{field}.spec.podSpec", clique.spec.pod_spec)


def _clique_counts(field: str, spec: PodCliqueSpec) -> Iterator[FieldError]:
    if spec.replicas < 0:
        yield FieldError(f"{field}.replicas", f"must not be negative; got {spec.replicas}")
    if spec.min_available is not None:
        if spec.min_available <= 0:
            yield FieldError(f"{field}.minAvailable", f"must be greater than 0; got {spec.min_available}")
        elif 0 < spec.replicas < spec.min_available:
            yield FieldError(
                f"{field}.minAvailable",
                f"{_MIN_OVER}; got {spec.min_available} with {counted(spec.replicas, 'replica')}",
            )
    if spec.auto_scaling_config is not None:
        bounds = Bounds(spec.replicas, spec.min_available or 0)
        yield from validate_autoscaling(f"{field}.autoScalingConfig", spec.auto_scaling_config, bounds)


def _groups(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    template = cliqueset.template
    known = {clique.name: clique.spec for clique in template.cliques}
    members = [name for group in template.pod_clique_scaling_groups for name in group.clique_names]
    for index, group in enumerate(template.pod_clique_scaling_groups):
        field = f"{GROUPS}[{index}]"
        unknown = [name for name in group.clique_names if name not in known]
        if unknown:
            yield FieldError(
                f"{field}.cliqueNames", f"unidentified PodClique names found: {', '.join(unknown)}"
            )
        if not group.clique_names:
            yield FieldError(f"{field}.cliqueNames", "a scaling group needs at least one clique")
        yield from _group_counts(field, group)
        for name in group.clique_names:
            if name in known and known[name].auto_scaling_config:
                yield FieldError(
                    GROUPS,
                    f"clique {name!r} of scaling group {group.name!r} cannot have an autoScalingConfig; "
                    "use the "
                    "group's scaleConfig",
                )
    shared = sorted(name for name, count in Counter(members).items() if count > 1)
    if shared:
        yield FieldError(
            f"{GROUPS}.cliqueNames",
            f"a clique may belong to one scaling group at most; found twice: {', '.join(shared)}",
        )


def _group_counts(field: str, group: ScalingGroupConfig) -> Iterator[FieldError]:
    replicas = 1 if group.replicas is None else group.replicas
    minimum = 1 if group.min_available is None else group.min_available
    if replicas < 0:
        yield FieldError(f"{field}.replicas", f"must not be negative; got {replicas}")
    if minimum <= 0:
        yield FieldError(f"{field}.minAvailable", f"must be greater than 0; got {minimum}")
    elif 0 < replicas < minimum:
        yield FieldError(
            f"{field}.minAvailable", f"{_MIN_OVER}; got {minimum} with {counted(replicas, 'replica')}"
        )
    if group.scale_config is not None:
        yield from validate_autoscaling(f"{field}.scaleConfig", group.scale_config, Bounds(replicas, minimum))


def validate_pods(field: str, pods: Manifest) -> Iterator[FieldError]:
    """What Grove cannot allow in the pod spec at this field."""
    if errors := misshapen(field, pods):
        # Nothing else can be said of it, and nobody else shall read it.
        yield from errors
        return
    if not pods.get("containers"):
        yield FieldError(f"{field}.containers", "at least one container is required")
    if pods.get("topologySpreadConstraints"):
        yield FieldError(
            f"{field}.topologySpreadConstraints",
            "must not be set; where a gang's pods go is its topologyConstraint",
        )
    if pods.get("nodeName"):
        yield FieldError(f"{field}.nodeName", "must not be set; the scheduler chooses the node")
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(pods.get(kind) or ()):
            yield from _environment(f"{field}.{kind}[{index}].env", container.get("env") or ())


def _environment(field: str, variables: Sequence[Manifest]) -> Iterator[FieldError]:
    names = [str(variable.get("name") or "") for variable in variables]
    for index, name in enumerate(names):
        if not name or "=" in name or not name.isprintable():
            yield FieldError(
                f"{field}[{index}].name", f"{name!r} cannot be the name of an environment variable"
            )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        yield FieldError(field, f"must be unique; used more than once: {', '.join(twice)}")


def _metadata_keys(field: str, entries: dict[str, str], *, values: bool) -> Iterator[FieldError]:
    for key, value in entries.items():
        prefix, slash, name = key.rpartition("/")
        valid = len(name) <= 63 and _NAME.fullmatch(name) and (not slash or _PREFIX.fullmatch(prefix))
        if not valid:
            yield FieldError(field, f"{key!r} is not a valid key; it must be like example.com/name or name")
        if values and value and (len(value) > 63 or not _NAME.fullmatch(value)):
            yield FieldError(
                field, f"{value!r} is not a valid label value (label {key!r}); at most 63 characters"
            )
