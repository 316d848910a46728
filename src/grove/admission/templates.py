"""Translates an API server's errors about a role's pod template into errors about the set's fields. Pure.

A pod as it would be created is sent as a dry run; here is that pod, and what a refusal of it means: whether
the template is wrong, and in which field of the set.
"""

import difflib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode
from grove.api.gang import PodGang
from grove.api.revision import next_revision
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Context
from grove.errors import ApiError, BadRequest, FieldError, Forbidden, Invalid
from grove.meta import Manifest
from grove.plan.changes import without_absent
from grove.plan.children import CliqueSetState
from grove.plan.children.cliques import Cliques
from grove.plan.children.gangs import Gangs
from grove.plan.pods import NewPod, desired_pod
from grove.plan.sharing import claims_of

_ENVIRONMENT: Final = re.compile(r"spec\.(containers|initContainers)\[(\d+)\]\.env\[(\d+)\](.*)")
_UNKNOWN: Final = re.compile(r'(unknown|duplicate) field "([^"]+)"')
_WRONG_TYPE: Final = re.compile(r"cannot unmarshal (\S+) into Go struct field \w+\.(\S+) of type (\S+)")
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


def trial_of(
    cliqueset: PodCliqueSet,
    index: int,
    *,
    backend: Backend,
    context: Context,
    binding: ClusterTopologyBinding | None,
) -> Trial:
    """The first pod of a role, as the operator would create it but for its owner, who does not exist yet."""
    role = cliqueset.template.cliques[index].name
    seen = CliqueSetState(cliqueset, backend=backend.name, topology=binding)
    base = seen.layout(0).base_gang(0)
    planned = next(each for each in base.cliques if each.role.name == role)
    clique = decode(without_absent(Cliques(seen).row(0, planned).manifest()), PodClique)
    gang = decode(without_absent(Gangs(seen).row(base).manifest()), PodGang)
    # No other object has the set's UID in its name: the trial never meets a pod that exists.
    new = NewPod(0, f"{clique.name}-{cliqueset.uid[:8] or 'trial'}")
    claims = claims_of(cliqueset, clique, [new.index])[new.index]
    pod = desired_pod(clique, new, next_revision(gang), claims=claims)
    del pod["metadata"]["ownerReferences"]
    return Trial(cliqueset, index, backend.prepare_pod(pod, gang, context))


def possible_trial(
    cliqueset: PodCliqueSet,
    index: int,
    *,
    backend: Backend,
    context: Context,
    binding: ClusterTopologyBinding | None,
) -> Trial | None:
    """The trial of a role, unless the backend cannot make a pod of it."""
    try:
        return trial_of(cliqueset, index, backend=backend, context=context, binding=binding)
    except Exception:
        # What a backend refuses, or fails at by a defect, is told where pods are made.
        return None


def identity(
    cliqueset: PodCliqueSet, index: int, *, backend: Backend, binding: ClusterTopologyBinding | None
) -> bytes:
    """Equal for roles whose pods an API server accepts or refuses alike, whatever their sets are called.

    Covers everything of which the pod is made but names and numbers of pods. `template_hash` would not do: to
    it a misspelt field without a value is no field.
    """
    replace = msgspec.structs.replace
    role = cliqueset.template.cliques[index]
    alone = replace(role, spec=replace(role.spec, replicas=0, min_available=None))
    known = [
        cliqueset.namespace,
        backend.name,
        (binding.name, binding.metadata.resource_version) if binding is not None else None,
        cliqueset.labels,
        cliqueset.annotations,
        replace(cliqueset.template, cliques=(alone,)),
    ]
    return hashlib.sha256(msgspec.json.encode(known, order="deterministic")).digest()


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
                    return Refusal((FieldError(trial.field(field), found[0]),), passing=True)
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
            yield FieldError(trial.field(field), f"{what} field{_meant(what, field)}")
    elif wrong := _WRONG_TYPE.search(words):
        given, field, wanted = wrong.groups()
        yield FieldError(trial.field(field), f"is a {given}, but {wanted} is wanted")
    else:
        yield FieldError(trial.field(""), words.partition(f"{_UNDECODABLE}: ")[2] or words)


def _meant(what: str, field: str) -> str:
    """Which field was probably meant by an unknown one."""
    name = field.rpartition(".")[2]
    near = difflib.get_close_matches(name, _FIELDS, n=1, cutoff=0.7) if what == "unknown" else []
    return f"; did you mean {near[0]}?" if near and near[0] != name else ""
