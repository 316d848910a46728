"""Translates an API server's errors about a role's pod template into errors about the set's fields. Pure.

A pod as it would be created is sent as a dry run; here is that pod, and what a refusal of it means: whether
the template is wrong, and in which field of the set.
"""

import difflib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet, PodCliqueSetTemplate, PodCliqueTemplate
from grove.api.gang import PodGang
from grove.api.revision import next_revision
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Context
from grove.errors import ApiError, BadRequest, FieldError, Forbidden, Invalid
from grove.meta import Manifest
from grove.plan.children import CliqueSetState
from grove.plan.children.cliques import Cliques
from grove.plan.children.gangs import Gangs
from grove.plan.layout import PlannedGang
from grove.plan.pods import NewPod, desired_pod
from grove.plan.sharing import claims_of
from grove.words import value_in_words

_ENVIRONMENT: Final = re.compile(r"spec\.(containers|initContainers)\[(\d+)\]\.env\[(\d+)\](.*)")
_UNKNOWN: Final = re.compile(r'(unknown|duplicate) field "([^"]+)"')
_WRONG_TYPE: Final = re.compile(r"cannot unmarshal (\S+) into Go struct field \w+\.(\S+) of type (\S+)")
#: What JSON calls a value, in Go's words and as Python reads it.
_GIVEN: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "number": (int, float),
    "bool": bool,
    "object": dict,
    "array": list,
}
#: What Go wants, in words.
_WANTED: Final = {
    "string": "text",
    "bool": "true or false",
    "int32": "a whole number",
    "int64": "a whole number",
    "[]string": "a list of texts",
}
_UNDECODABLE: Final = "cannot be handled as a Pod"
#: How webhooks and admission policies begin their refusals, which may say Invalid as validation does.
_ADMISSION: Final = re.compile(r"admission webhook|[Pp]olicy '[^']*' with binding '[^']*' denied request")
#: The fields of pods that people write, for those who mistype one.
_FIELDS: Final = (
    *("affinity", "args", "claims", "command", "containerPort", "containers", "dnsPolicy", "emptyDir", "env"),
    *("envFrom", "fieldRef", "hostIPC", "hostNetwork", "hostPID", "hostPath", "httpGet", "image"),
    *("imagePullPolicy", "imagePullSecrets", "initContainers", "initialDelaySeconds", "key", "limits"),
    *("livenessProbe", "matchExpressions", "mountPath", "name", "nodeAffinity", "nodeSelector", "operator"),
    *("periodSeconds", "persistentVolumeClaim", "podAffinity", "podAntiAffinity", "port", "ports"),
    *("priorityClassName", "protocol", "readOnly", "readinessProbe", "requests", "resourceClaims"),
    *("resources", "restartPolicy", "runAsUser", "runtimeClassName", "schedulerName", "secretKeyRef"),
    *("securityContext", "serviceAccountName", "startupProbe", "subPath", "terminationGracePeriodSeconds"),
    *("tolerations", "value", "valueFrom", "values", "volumeMounts", "volumes", "workingDir"),
)
_CREATE: Final = "create it, or name one that exists"
#: Objects that a pod names and that may appear later, and the field that names them.
_NAMED: Final = (
    (re.compile(r"no PriorityClass with name .+ was found"), "spec.priorityClassName"),
    (re.compile(r'RuntimeClass "[^"]*" not found'), "spec.runtimeClassName"),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One role of a set and the pod by which its template is tried."""

    cliqueset: PodCliqueSet
    index: int
    pod: Manifest

    @property
    def path(self) -> str:
        return f"spec.template.cliques[{self.index}]"

    def field(self, of_pod: str) -> str:
        """The field of the set from which a field of the pod comes; the pod spec where it is nobody's."""
        template = self.cliqueset.template.cliques[self.index].spec.pod_spec
        if of_pod == "spec.priorityClassName" and not template.get("priorityClassName"):
            return "spec.template.priorityClassName"
        if found := _ENVIRONMENT.fullmatch(of_pod):
            kind, container, variable, rest = found.groups()
            ours = self._variables_of_ours(kind, int(container))
            of_pod = f"spec.{kind}[{container}].env[{max(0, int(variable) - ours)}]{rest}"
        head, _, rest = of_pod.partition(".")
        if head == "spec" and rest:
            return f"{self.path}.spec.podSpec.{rest}"
        for metadata in ("metadata.labels", "metadata.annotations"):
            if of_pod.startswith(metadata):
                return f"{self.path}.{of_pod.removeprefix('metadata.')}"
        return f"{self.path}.spec.podSpec"

    def _variables_of_ours(self, kind: str, container: int) -> int:
        """How many variables Grove put before those of the author."""
        template = self.cliqueset.template.cliques[self.index].spec.pod_spec
        try:
            theirs = template[kind][container].get("env") or ()
            return len(self.pod["spec"][kind][container]["env"]) - len(theirs)
        except (KeyError, IndexError):
            return 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a template cannot be used; `passing` if an object that it names may still appear."""

    errors: tuple[FieldError, ...]
    passing: bool = False


@dataclass(frozen=True)
class Trying:
    """The pods by which the roles of one set are tried; what they have in common is made once."""

    cliqueset: PodCliqueSet
    backend: Backend
    context: Context
    binding: ClusterTopologyBinding | None = None

    def trial(self, index: int) -> Trial:
        """The first pod of a role, as the operator would create it but for its owner."""
        cliqueset, gang = self.cliqueset, self._gang
        role = cliqueset.template.cliques[index].name
        planned = next(each for each in self._planned.cliques if each.role.name == role)
        clique = Cliques(self._seen).row(0, planned).view(PodClique)
        # No other object has the set's UID in its name: the trial never meets a pod that exists.
        new = NewPod(0, f"{clique.name}-{cliqueset.uid[:8] or 'trial'}")
        claims = claims_of(cliqueset, clique, [new.index])[new.index]
        pod = desired_pod(clique, new, next_revision(gang), claims=claims)
        del pod["metadata"]["ownerReferences"]
        return Trial(cliqueset, index, self.backend.prepare_pod(pod, gang, self.context))

    def possible(self, index: int) -> Trial | None:
        """The trial of a role, unless the backend cannot make a pod of it."""
        try:
            return self.trial(index)
        except Exception:
            # What a backend refuses, or fails at by a defect, is told where pods are made.
            return None

    @cached_property
    def _seen(self) -> CliqueSetState:
        return CliqueSetState(self.cliqueset, backend=self.backend.name, topology=self.binding)

    @cached_property
    def _planned(self) -> PlannedGang:
        return self._seen.layout(0).base_gang(0)

    @cached_property
    def _gang(self) -> PodGang:
        return Gangs(self._seen).row(self._planned).view(PodGang)


def identity(
    cliqueset: PodCliqueSet, index: int, *, backend: Backend, binding: ClusterTopologyBinding | None
) -> bytes:
    """Equal for roles, of one set or several, whose pods an API server accepts or refuses alike.

    Covers everything of which the pod is made but names and numbers of pods. `template_hash` would not do: to
    it a misspelt field without a value is no field.
    """
    known = [
        cliqueset.namespace,
        backend.name,
        (binding.name, binding.metadata.resource_version) if binding is not None else None,
        cliqueset.labels,
        cliqueset.annotations,
        _alone(cliqueset.template, cliqueset.template.cliques[index]),
    ]
    return hashlib.sha256(msgspec.json.encode(known, order="deterministic")).digest()


def _alone(template: PodCliqueSetTemplate, role: PodCliqueTemplate) -> PodCliqueSetTemplate:
    """What of a set's template one role's pods are made of."""
    replace = msgspec.structs.replace
    groups = [each for each in template.pod_clique_scaling_groups if role.name in each.clique_names]
    # Who shares a device is said by name.
    named = bool(template.resource_sharing) or any(each.resource_sharing for each in groups)
    spec = replace(role.spec, role_name="", replicas=0, min_available=None)
    return replace(
        template,
        cliques=(replace(role, name=role.name if named else "", spec=spec),),
        pod_clique_scaling_groups=tuple(replace(each, clique_names=()) for each in groups),
    )


def refusal_of(trial: Trial, failure: ApiError) -> Refusal | None:
    """What an API server's no to the trial says about the template; None if it is about something else.

    Quotas, PodSecurity, permissions, webhooks and admission policies refuse pods, not templates: whoever
    creates the pods meets them, and tells.
    """
    words = str(failure)
    if _ADMISSION.search(words):
        return None
    match failure:
        case Invalid():
            return Refusal(tuple(_causes(trial, failure)))
        case BadRequest() if _UNDECODABLE in words:
            return Refusal(tuple(_undecodable(trial, words)))
        case Forbidden():
            for pattern, field in _NAMED:
                if found := pattern.search(words):
                    return Refusal((FieldError(trial.field(field), f"{found[0]}; {_CREATE}"),), passing=True)
    return None


def _causes(trial: Trial, failure: Invalid) -> Iterator[FieldError]:
    causes = failure.details.get("causes")
    found = [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
    if not found:
        yield FieldError(trial.field(""), str(failure))
    for cause in found:
        yield FieldError(trial.field(str(cause.get("field", ""))), str(cause.get("message", "")))


def _undecodable(trial: Trial, words: str) -> Iterator[FieldError]:
    if found := _UNKNOWN.findall(words):
        for what, field in found:
            hint = meant(field) if what == "unknown" else ""
            yield FieldError(trial.field(field), f"{what} field{hint}")
    elif wrong := _WRONG_TYPE.search(words):
        yield _wrong_type(trial, *wrong.groups())
    else:
        yield FieldError(trial.field(""), words.partition(f"{_UNDECODABLE}: ")[2] or words)


def _wrong_type(trial: Trial, given: str, field: str, wanted: str) -> FieldError:
    """Which value has the wrong type: an API server names neither it nor its place in a list."""
    place = next(_places(trial.pod, field.split("."), given), None)
    if place is None or wanted not in _WANTED:
        return FieldError(trial.field(field), f"is a {given}, but {wanted} is wanted")
    return FieldError(trial.field(place[0]), f"must be {_WANTED[wanted]}, not {value_in_words(place[1])}")


def _places(at: object, steps: Sequence[str], given: str, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value of a type at a path of field names, or right below it in a list or map."""
    if isinstance(at, list) and (steps or given != "array"):
        for index, each in enumerate(at):
            yield from _places(each, steps, given, f"{path}[{index}]")
    elif isinstance(at, dict) and steps:
        if steps[0] in at:
            yield from _places(at[steps[0]], steps[1:], given, f"{path}.{steps[0]}".lstrip("."))
    elif isinstance(at, dict) and given != "object":
        for key, each in at.items():
            yield from _places(each, (), given, f"{path}[{key}]")
    elif not steps and isinstance(at, _GIVEN.get(given, ())) and isinstance(at, bool) == (given == "bool"):
        yield path, at


def meant(field: str) -> str:
    """Which field of a pod was probably meant by an unknown one."""
    name = field.rpartition(".")[2]
    near = difflib.get_close_matches(name, _FIELDS, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near and near[0] != name else ""
