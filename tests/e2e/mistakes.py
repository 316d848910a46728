"""What people really write, and the one sentence by which it is refused: field, value, and what would be right."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from tests.deploy.helm import EXAMPLES

from grove.meta import Manifest

TEMPLATE: Final = ("spec", "template")
ROLE: Final = (*TEMPLATE, "cliques", 0)
CONTAINER: Final = (*ROLE, "spec", "podSpec", "containers", 0)
#: As kubectl shows them.
CLIQUES: Final = "spec.template.cliques"
POD: Final = f"{CLIQUES}[0].spec.podSpec"
MAIN: Final = f"{POD}.containers[0]"
Steps = tuple[str | int, ...]


def edited(edits: Mapping[Steps, object]) -> Manifest:
    """A good set with something else in these places."""
    found: Manifest = yaml.safe_load(EXAMPLES["default"].path.read_text(encoding="utf-8"))
    found["metadata"]["name"] = "llm"
    for path, value in edits.items():
        place: Any = found
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = copy.deepcopy(value)
    return found


@dataclass(frozen=True, slots=True)
class Mistake:
    """A good set with something else in these places, and the answer."""

    edits: Mapping[Steps, object]
    #: The field that is wrong, as kubectl shows it.
    field: str
    #: What was written there, as it stands in the sentence; the field itself where its name is wrong.
    value: str
    #: What would be right.
    right: str
    sentence: str

    def __post_init__(self) -> None:
        assert self.value in self.sentence or self.value in self.field
        assert self.right in self.sentence

    def manifest(self) -> Manifest:
        return edited(self.edits)

    @property
    def answer(self) -> str:
        """All that kubectl says."""
        return f'The PodCliqueSet "llm" is invalid: {self.field}: {self.sentence}'


#: Refused by the webhooks or, where CEL can say it, by the definitions; in each case in these words.
MISTAKES: Final[Mapping[str, Mistake]] = {
    "a field of a container is misspelt": Mistake(
        {(*CONTAINER, "imgae"): "busybox:1.37"},
        f"{MAIN}.imgae",
        "imgae",
        "image",
        "unknown field; did you mean image?",
    ),
    "memory in words": Mistake(
        {(*CONTAINER, "resources", "requests", "memory"): "8 GB"},
        f"{MAIN}.resources.requests[memory]",
        "8 GB",
        "8Gi",
        "must be a quantity such as 2, 500m or 8Gi, not the text '8 GB'",
    ),
    "a number without quotes in the environment": Mistake(
        {(*CONTAINER, "env"): [{"name": "HOST", "value": "0.0.0.0"}, {"name": "PORT", "value": 8080}]},
        f"{MAIN}.env[1].value",
        "8080",
        "text",
        "must be text, not the number 8080",
    ),
    "a command as one text": Mistake(
        {(*CONTAINER, "command"): "python serve.py"},
        f"{MAIN}.command",
        "python serve.py",
        "a list of texts",
        "must be a list of texts, not the text 'python serve.py'",
    ),
    "a request above the limit": Mistake(
        {(*CONTAINER, "resources", "limits", "memory"): "512Mi"},
        f"{MAIN}.resources.requests",
        "1Gi",
        "512Mi",
        'Invalid value: "1Gi": must be less than or equal to memory limit of 512Mi',
    ),
    "a priority class that nobody made": Mistake(
        {(*TEMPLATE, "priorityClassName"): "urgent"},
        "spec.template.priorityClassName",
        "urgent",
        "one that exists",
        "no PriorityClass with name urgent was found; create it, or name one that exists",
    ),
    "a scheduler is misspelt": Mistake(
        {(*ROLE, "spec", "podSpec", "schedulerName"): "kai-schedulr"},
        f"{POD}.schedulerName",
        "kai-schedulr",
        "kai-scheduler",
        "'kai-schedulr': scheduler backend is not enabled in Grove; enabled: default (default-scheduler), "
        "kai (kai-scheduler), koordinator (koord-scheduler), volcano (volcano), yunikorn (yunikorn)",
    ),
    "a topology that nobody described": Mistake(
        {(*TEMPLATE, "topologyConstraint"): {"topologyName": "dc", "pack": {"required": "rack"}}},
        "spec.template.topologyConstraint.topologyName",
        "dc",
        "one that exists",
        'ClusterTopologyBinding "dc" not found; create it, or name one that exists',
    ),
    "a minimum above the replicas": Mistake(
        {(*ROLE, "spec", "minAvailable"): 8},
        f"{CLIQUES}[0].spec.minAvailable",
        "8",
        "not be greater than replicas",
        "Invalid value: minAvailable must not be greater than replicas; got 8 with 2 replicas",
    ),
    "a role in capitals": Mistake(
        {(*ROLE, "name"): "Prefill"},
        f"{CLIQUES}[0].name",
        "Prefill",
        "[a-z0-9]",
        f'Invalid value: "Prefill": {CLIQUES}[0].name in body should match '
        "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
    ),
    "a delay in words": Mistake(
        {(*TEMPLATE, "terminationDelay"): "4 hours"},
        "spec.template.terminationDelay",
        "4 hours",
        "4h0m0s",
        "'4 hours' is not a duration; write it like 4h0m0s, 90s or 1m30s",
    ),
    "replicas of pods instead of sets": Mistake(
        {("spec", "replicas"): 5000},
        "spec.replicas",
        "5000",
        "10000",
        "asks for 25000 pods (5000 replicas of 5 pods each); this operator allows 10000 pods in one set; lower "
        "it, split the set, or raise limits.podsPerSet in the operator's configuration",
    ),
    "a scaling group of a role that is not there": Mistake(
        {(*TEMPLATE, "podCliqueScalingGroups"): [{"name": "model", "cliqueNames": ["prefil", "decode"]}]},
        "spec.template.podCliqueScalingGroups",
        "prefil",
        "cliques of the set",
        "Invalid value: unidentified PodClique names found: cliqueNames may only name cliques of the set; "
        "got prefil",
    ),
    "a role that starts after one that is not there": Mistake(
        {
            (*TEMPLATE, "cliqueStartupType"): "CliqueStartupTypeExplicit",
            (*TEMPLATE, "cliques", 1, "spec", "startsAfter"): ["prefil"],
        },
        "spec.template.cliques",
        "prefil",
        "cliques of the set",
        "Invalid value: startsAfter may only name other cliques of the set; got prefil",
    ),
}

_LATER: Final = (
    "\n* <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
#: What the API server says before it asks anybody: no webhook can say it better. The whole answers.
BY_THE_API_SERVER: Final[Mapping[str, tuple[Mapping[Steps, object], str]]] = {
    "a field of a set is misspelt": (
        {(*ROLE, "spec", "minAvailible"): 2},
        'Error from server (BadRequest): error when creating "STDIN": PodCliqueSet in version "v1alpha1" cannot '
        f'be handled as a PodCliqueSet: strict decoding error: unknown field "{CLIQUES}[0].spec.minAvailible"',
    ),
    "replicas in words": (
        {(*ROLE, "spec", "replicas"): "two"},
        f'The PodCliqueSet "llm" is invalid: \n* {CLIQUES}[0].spec.replicas: Invalid value: "string": '
        f'{CLIQUES}[0].spec.replicas in body must be of type integer: "string"{_LATER}',
    ),
    "a startup type without its prefix": (
        {(*TEMPLATE, "cliqueStartupType"): "InOrder"},
        'The PodCliqueSet "llm" is invalid: \n* spec.template.cliqueStartupType: Unsupported value: "InOrder": '
        'supported values: "CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"'
        f"{_LATER}",
    ),
}
