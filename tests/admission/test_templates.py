"""What an API server's refusal of a pod says about the role's template, in fields of the set."""

from collections.abc import Sequence

import pytest

from grove.admission.templates import Refusal, Trial, Trying, identity, refusal_of
from grove.api import labels
from grove.backends.base import Context
from grove.backends.default import DefaultBackend
from grove.errors import ApiError, BadRequest, FieldError, Forbidden, Invalid
from grove.meta import Manifest
from grove.testing import make

PODS = "spec.template.cliques[1].spec.podSpec"


def trial(pod: Manifest | None = None, priority: str = "") -> Trial:
    """The trial of the second role of a set."""
    template = {"priorityClassName": priority} if priority else {}
    cliqueset = make.cliqueset(
        "t", [make.template("a"), make.template("b", 1, pod=pod or {})], template=template
    )
    return Trying(cliqueset, DefaultBackend(), Context(cliqueset=cliqueset)).trial(1)


def invalid(**causes: str) -> Invalid:
    listed: list[object] = [{"field": field, "message": message} for field, message in causes.items()]
    return Invalid("Pod is invalid", details={"causes": listed})


def test_the_trial_is_the_prepared_pod_without_an_owner() -> None:
    pod = trial(priority="urgent").pod
    assert pod["metadata"]["labels"][labels.POD_CLIQUE] == "t-0-b"
    assert pod["spec"]["schedulingGates"]
    assert pod["spec"]["priorityClassName"] == "urgent"
    assert "ownerReferences" not in pod["metadata"]


FIELDS = {
    "spec.containers[0].image": f"{PODS}.containers[0].image",
    # Grove puts five variables before those of the author.
    "spec.containers[0].env[6].name": f"{PODS}.containers[0].env[1].name",
    "metadata.labels": "spec.template.cliques[1].labels",
    "metadata.annotations": "spec.template.cliques[1].annotations",
    "spec.priorityClassName": "spec.template.priorityClassName",
    "spec": PODS,
    "": PODS,
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_the_pod_is_told_as_the_field_of_the_set(field: str) -> None:
    image = {"containers": [{"name": "main", "image": "x", "env": [{"name": "A"}, {"name": "B"}]}]}
    refusal = refusal_of(trial(image), invalid(**{field: "Required value"}))
    assert refusal == Refusal((FieldError(FIELDS[field], "Required value"),))


def test_a_priority_class_of_the_role_itself_is_told_there() -> None:
    missing = Forbidden('pods "t-0-b-x" is forbidden: no PriorityClass with name urgent was found')
    refusal = refusal_of(trial({"priorityClassName": "urgent"}), missing)
    sentence = "no PriorityClass with name urgent was found; create it, or name one that exists"
    told = FieldError(f"{PODS}.priorityClassName", sentence)
    assert refusal == Refusal((told,), passing=True)


UNDECODABLE = {
    'strict decoding error: unknown field "spec.containers[0].imgae", unknown field "spec.nodeNme"': [
        FieldError(f"{PODS}.containers[0].imgae", "unknown field; did you mean image?"),
        FieldError(f"{PODS}.nodeNme", "unknown field"),
    ],
    "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool": [
        FieldError(f"{PODS}.hostNetwork", "is a string, but bool is wanted"),
    ],
    "json: cannot unmarshal object into Go struct field PodSpec.spec.tolerations of type []v1.Toleration": [
        FieldError(f"{PODS}.tolerations", "is a object, but []v1.Toleration is wanted"),
    ],
    "quantities must match the regular expression": [
        FieldError(PODS, "quantities must match the regular expression")
    ],
}


@pytest.mark.parametrize(
    ("words", "want"), UNDECODABLE.items(), ids=["fields", "a type", "another type", "anything else"]
)
def test_what_cannot_be_decoded_is_told_by_field(words: str, want: list[FieldError]) -> None:
    refusal = refusal_of(trial(), BadRequest(f'Pod in version "v1" cannot be handled as a Pod: {words}'))
    assert refusal == Refusal(tuple(want))


def of_type(given: str, field: str, wanted: str) -> BadRequest:
    """What an API server says of a type: neither the value nor its place in a list."""
    words = f"json: cannot unmarshal {given} into Go struct field {field} of type {wanted}"
    return BadRequest(f'Pod in version "v1" cannot be handled as a Pod: {words}')


def container(**fields: object) -> Manifest:
    return {"containers": [{"name": "side", "image": "x"}, {"name": "main", "image": "x", **fields}]}


MISTYPED = {
    "a number in the environment": (
        container(env=[{"name": "A", "value": "1"}, {"name": "PORT", "value": 8080}]),
        of_type("number", "EnvVar.spec.containers.env.value", "string"),
        FieldError(f"{PODS}.containers[1].env[1].value", "must be text, not the number 8080"),
    ),
    "a command as one text": (
        container(command="python serve.py"),
        of_type("string", "Container.spec.containers.command", "[]string"),
        FieldError(
            f"{PODS}.containers[1].command", "must be a list of texts, not the text 'python serve.py'"
        ),
    ),
    "a number in a list": (
        container(args=["--port", 8080]),
        of_type("number", "Container.spec.containers.args", "string"),
        FieldError(f"{PODS}.containers[1].args[1]", "must be text, not the number 8080"),
    ),
    "a port as text": (
        container(ports=[{"containerPort": "8000"}]),
        of_type("string", "ContainerPort.spec.containers.ports.containerPort", "int32"),
        FieldError(
            f"{PODS}.containers[1].ports[0].containerPort", "must be a whole number, not the text '8000'"
        ),
    ),
    "yes": (
        {"hostNetwork": "yes"},
        of_type("string", "PodSpec.spec.hostNetwork", "bool"),
        FieldError(f"{PODS}.hostNetwork", "must be true or false, not the text 'yes'"),
    ),
    "a label of nodes that is true": (
        {"nodeSelector": {"zone": "a", "gpu": True}},
        of_type("bool", "PodSpec.spec.nodeSelector", "string"),
        FieldError(f"{PODS}.nodeSelector[gpu]", "must be text, not true"),
    ),
}


@pytest.mark.parametrize(("pod", "failure", "want"), MISTYPED.values(), ids=MISTYPED)
def test_a_value_of_the_wrong_type_is_told_with_its_place_and_what_it_is(
    pod: Manifest, failure: BadRequest, want: FieldError
) -> None:
    assert refusal_of(trial(pod), failure) == Refusal((want,))


OTHERS: dict[str, ApiError] = {
    "a quota": Forbidden('pods "x" is forbidden: exceeded quota: few, requested: pods=1'),
    "PodSecurity": Forbidden('pods "x" is forbidden: violates PodSecurity "restricted:latest"'),
    "RBAC": Forbidden('pods is forbidden: User "grove" cannot create resource "pods"'),
    "a limit range": Forbidden('pods "x" is forbidden: maximum cpu usage per Pod is 1, but limit is 2'),
    "a service account that comes later": Forbidden(
        'pods "x" is forbidden: error looking up service account'
    ),
    "a webhook": Forbidden('admission webhook "policy.example.com" denied the request: no'),
    "a webhook that says Invalid": Invalid('admission webhook "policy.example.com" denied the request: no'),
    "an admission policy": Invalid(
        "pods \"x\" is invalid: : ValidatingAdmissionPolicy 'few' with binding 'few' denied request: no",
        details={
            "causes": [{"message": "ValidatingAdmissionPolicy 'few' with binding 'few' denied request: no"}]
        },
    ),
    "a mutating admission policy": Invalid("policy 'few' with binding 'few' denied request: no such path"),
    "a webhook without dry runs": BadRequest('admission webhook "x" does not support dry run'),
}


@pytest.mark.parametrize("failure", OTHERS.values(), ids=OTHERS)
def test_what_refuses_pods_does_not_refuse_the_template(failure: ApiError) -> None:
    assert refusal_of(trial(), failure) is None


def identified(name: str = "t", *, replicas: int = 1, pod: Manifest | None = None, **fields: object) -> bytes:
    role = make.template("a", replicas, pod=pod)
    cliqueset = make.cliqueset(name, [role, make.template("b")], **fields)  # type: ignore[arg-type]
    return identity(cliqueset, 0, backend=DefaultBackend(), binding=None)


def test_a_role_is_the_same_trial_whatever_its_set_is_called_and_however_many_pods_it_has() -> None:
    assert identified() == identified("other", replicas=5)


@pytest.mark.parametrize(
    "other",
    [
        {"pod": {"hostNetwrok": ""}},
        {"pod": {"dnsPolicy": "Default"}},
        {"namespace": "elsewhere"},
        {"annotations": {labels.SCHEDULER_BACKEND: "kai"}},
        {"template": {"priorityClassName": "urgent"}},
    ],
    ids=str,
)
def test_what_an_api_server_may_answer_otherwise_is_another_trial(other: dict[str, object]) -> None:
    assert identified() != identified(**other)  # type: ignore[arg-type]


def told_apart(*roles: str, groups: Sequence[Manifest] = (), **template: object) -> int:
    """How many trials there are for roles that differ in their names only."""
    cliqueset = make.cliqueset(
        "t",
        [make.template(name, roleName=name) for name in roles],
        template={"podCliqueScalingGroups": list(groups), **template},
    )
    backend = DefaultBackend()
    return len({identity(cliqueset, index, backend=backend, binding=None) for index in range(len(roles))})


def test_roles_that_differ_in_their_names_only_are_one_trial() -> None:
    assert told_apart("a", "b", "c") == 1
    assert told_apart("a", "b", "c", groups=[{"name": "g", "cliqueNames": ["b", "c"]}]) == 2


def test_roles_of_which_one_shares_a_device_are_trials_of_their_own() -> None:
    shared = {"name": "gpu", "scope": "AllReplicas", "filter": {"childCliqueNames": ["a"]}}
    assert told_apart("a", "b", resourceSharing=[shared]) == 2
    group = {"name": "g", "cliqueNames": ["a", "b"], "resourceSharing": [shared]}
    assert told_apart("a", "b", groups=[group]) == 2
