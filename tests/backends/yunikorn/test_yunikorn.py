"""What pods for YuniKorn carry, what is refused, what is lost, and which queue a gang goes to."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Capability, Context, Edit, Fidelity, GangSnapshot
from grove.backends.yunikorn import YuniKornBackend
from grove.backends.yunikorn.queue import CONFIG_MAPS
from grove.backends.yunikorn.requests import effective_requests
from grove.errors import InvalidConfiguration, Unsupported, Waiting
from grove.meta import Manifest
from grove.testing import make

BACKEND = YuniKornBackend()
REVISION = "bcdfghjklm"
APPLICATION = "yunikorn.apache.org/app-id"
QUEUE = "yunikorn.apache.org/queue"
GROUPS = "yunikorn.apache.org/task-groups"
POLICY = "yunikorn.apache.org/schedulingPolicyParameters"
TASK = "yunikorn.apache.org/task-group-name"
SEEN = {"app.kubernetes.io/managed-by": "grove-operator", "grove.io/podgang": "train-0"}


def container(**requests: str) -> Manifest:
    named = {name.replace("gpu", "nvidia.com/gpu"): value for name, value in requests.items()}
    return {"name": "main", "image": "registry.example/serve:1", "resources": {"requests": named}}


def role(name: str, replicas: int, pod: Manifest | None = None, **fields: object) -> Manifest:
    return make.template(name, replicas, pod={"containers": [container(gpu="8")], **(pod or {})}, **fields)


TRAIN = make.cliqueset(
    "train",
    [
        role("leader", 1, {"containers": [container(cpu="500m")]}),
        role("worker", 3, {"nodeSelector": {"pool": "gpu"}}),
    ],
)
GANG = make.gang("train-0", {"train-0-leader": 1, "train-0-worker": 3}, uid="0123456789", cliqueset="train")


def on(cliqueset: PodCliqueSet | None = TRAIN, *, queues: str | None = None, **config: object) -> Context:
    """A cluster with this configuration of YuniKorn; None for one whose configuration is not known."""
    manifests: tuple[Manifest, ...] = ({"data": {"queues.yaml": queues}},) if queues else ()
    observed = {} if queues is None else {CONFIG_MAPS: manifests}
    return Context(config=config, cliqueset=cliqueset, observed=observed, revision=REVISION)


def prepared(
    gang: PodGang = GANG, clique: str = "train-0-worker", context: Context | None = None
) -> Manifest:
    pod = make.pod_manifest(clique, 0, gang=gang)
    return BACKEND.prepare_pod(pod, gang, context or on())


def marks(pod: Manifest) -> dict[str, str]:
    """Everything of YuniKorn's on a pod, labels and annotations alike."""
    both = {**pod["metadata"]["labels"], **pod["metadata"]["annotations"]}
    return {key: value for key, value in both.items() if key.startswith("yunikorn.apache.org/")}


def test_a_pod_names_its_application_its_group_and_all_groups() -> None:
    found = marks(prepared())
    groups = json.loads(found.pop(GROUPS))
    assert found == {
        APPLICATION: f"train-0-{REVISION}",
        TASK: "train-0-worker",
        POLICY: "placeholderTimeoutInSeconds=31536000 gangSchedulingStyle=Hard",
    }
    assert groups == [
        {"name": "train-0-leader", "minMember": 1, "minResource": {"cpu": "500m"}, "labels": SEEN},
        {
            "name": "train-0-worker",
            "minMember": 3,
            "minResource": {"nvidia.com/gpu": "8"},
            "labels": SEEN,
            "nodeSelector": {"pool": "gpu"},
        },
    ]


def test_every_pod_of_a_gang_defines_the_same_application() -> None:
    leader, worker = marks(prepared(clique="train-0-leader")), marks(prepared())
    assert {**leader, TASK: ""} == {**worker, TASK: ""}


def test_placeholders_are_found_by_our_labels_and_are_nobodys_pods() -> None:
    (first, _) = json.loads(marks(prepared())[GROUPS])
    assert "grove.io/podclique" not in first["labels"]
    assert "app.kubernetes.io/part-of" not in first["labels"]


def test_a_role_whose_place_depends_on_other_pods_lends_its_labels_to_its_placeholders() -> None:
    apart: Manifest = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}
    cliqueset = make.cliqueset("train", [role("worker", 2, {"affinity": apart}, labels={"app": "llm"})])
    gang = make.gang("train-0", {"train-0-worker": 2}, cliqueset="train")
    (group,) = json.loads(marks(prepared(gang, context=on(cliqueset)))[GROUPS])
    assert group["affinity"] == apart
    assert group["labels"] == {"app": "llm", **SEEN}


def test_a_role_that_the_gang_can_do_without_has_no_task_group() -> None:
    gang = make.gang("train-0", {"train-0-leader": 1, "train-0-worker": 0}, cliqueset="train")
    found = marks(prepared(gang))
    assert [each["name"] for each in json.loads(found[GROUPS])] == ["train-0-leader"]
    assert TASK not in found


def test_a_gang_without_any_minimum_is_an_ordinary_application() -> None:
    gang = make.gang("train-0", {"train-0-worker": 0}, uid="0123456789", cliqueset="train")
    assert marks(prepared(gang)) == {APPLICATION: f"train-0-{REVISION}"}


def test_pods_inherit_the_priority_of_the_gang_and_keep_their_own() -> None:
    gang = make.gang("g", {"train-0-worker": 1}, priority="high")
    assert prepared(gang)["spec"]["priorityClassName"] == "high"
    own = make.pod_manifest("train-0-worker", 0, gang=gang, spec={"priorityClassName": "low"})
    assert BACKEND.prepare_pod(own, gang, on())["spec"]["priorityClassName"] == "low"


def test_a_long_name_still_gives_a_label_value_and_tells_gangs_apart() -> None:
    ids = set()
    for end in "ab":
        gang = make.gang("x" * 60 + end, {"train-0-worker": 1})
        ids.add(marks(prepared(gang))[APPLICATION])
    assert len(ids) == 2
    assert all(len(each) <= 52 for each in ids), "YuniKorn adds to it in the names of placeholders"
    assert all(each.endswith(f"-{REVISION}") for each in ids)


# Starts -------------------------------------------------------------------------------------------


def stored(pod: Manifest, *, created: str = "2026-01-01T00:00:00Z") -> Manifest:
    return {**pod, "metadata": {**pod["metadata"], "creationTimestamp": created}}


def test_each_start_of_a_gang_is_an_application_of_its_own() -> None:
    second = replace(on(), revision="nprstvwxyz")
    assert marks(prepared())[APPLICATION] == "train-0-bcdfghjklm"
    assert marks(prepared(context=second))[APPLICATION] == "train-0-nprstvwxyz"


def test_gangs_of_one_name_in_two_namespaces_are_two_applications() -> None:
    """Ids are shared by all namespaces; the UIDs of the gangs tell the revisions apart."""
    unsaid = replace(on(), revision="")
    ids = {
        marks(prepared(make.gang("train-0", {"train-0-worker": 1}, namespace=each), context=unsaid))[
            APPLICATION
        ]
        for each in ("a", "b")
    }
    assert len(ids) == 2


def renewed(pod: Manifest, gang: PodGang, *, minutes: int, context: Context | None = None) -> dict[str, str]:
    now = datetime(2026, 1, 1, 0, minutes, tzinfo=UTC)
    waiting = make.view(Pod, stored(pod))
    found = BACKEND.lifecycle(GangSnapshot(gang, [waiting], context or on(), now)).on_opening
    return {**found[waiting.name].annotations} if found else {}


def test_a_pod_whose_gate_opens_at_once_needs_nothing() -> None:
    assert renewed(prepared(), GANG, minutes=0) == {}


def test_the_time_behind_the_gate_is_not_counted_against_the_gang() -> None:
    context = on(placeholderTimeoutSeconds=60)
    late = renewed(prepared(context=context), GANG, minutes=10, context=context)
    assert late == {POLICY: "placeholderTimeoutInSeconds=660 gangSchedulingStyle=Hard"}


def test_a_moment_behind_the_gate_does_not_matter_to_a_long_timeout() -> None:
    assert renewed(prepared(), GANG, minutes=10) == {}


def test_a_gang_without_any_minimum_has_no_time_to_give_back() -> None:
    gang = make.gang("train-0", {"train-0-worker": 0}, uid="0123456789", cliqueset="train")
    context = on(placeholderTimeoutSeconds=60)
    assert renewed(prepared(gang, context=context), gang, minutes=10, context=context) == {}


def test_its_application_starts_once_and_what_is_told_cannot_be_edited_while_pods_are_on_nodes() -> None:
    lifecycle = BACKEND.lifecycle(GangSnapshot(GANG, [], on(), datetime(2026, 1, 1, tzinfo=UTC)))
    assert (lifecycle.starts_once, lifecycle.reserved) == (True, 0)
    # Nothing of the topology is told.
    assert BACKEND.traits(Context()).editable == {Edit.TOPOLOGY}


# What is lost and what is refused -----------------------------------------------------------------


def fidelity(gang: PodGang, context: Context | None = None) -> dict[str, Fidelity]:
    treatments = BACKEND.translate(gang, context or on()).treatments
    return {str(each.property): each.fidelity for each in treatments}


def test_a_gang_becomes_no_object() -> None:
    assert BACKEND.translate(GANG, on()).manifests == ()
    assert BACKEND.resources(on()) == ()


def test_a_preferred_rack_is_reported_and_a_required_one_refused() -> None:
    near = make.gang("g", {"w": 1}, preferred="rack")
    assert fidelity(near) == {"gang": Fidelity.ENFORCED, "topology-preferred": Fidelity.NOT_EXPRESSIBLE}
    with pytest.raises(Unsupported, match="YuniKorn cannot enforce a required topology constraint"):
        BACKEND.translate(make.gang("g", {"w": 1}, required="rack"), on())


def test_a_set_with_a_required_level_is_refused_field_by_field() -> None:
    pack = {"topologyName": "cluster", "pack": {"required": "rack"}}
    cliqueset = make.cliqueset(
        "train", [role("worker", 1, topologyConstraint=pack)], template={"topologyConstraint": pack}
    )
    assert [each.field for each in BACKEND.validate(cliqueset, on())] == [
        "spec.template.topologyConstraint.pack.required",
        "spec.template.cliques[0].topologyConstraint.pack.required",
    ]


def test_an_amount_that_is_none_is_refused_with_its_role() -> None:
    cliqueset = make.cliqueset("train", [role("worker", 1, {"containers": [container(cpu="many")]})])
    (error,) = BACKEND.validate(cliqueset, on())
    assert str(error) == (
        "spec.template.cliques[0].spec.podSpec: resources of a container: 'many' is not a quantity"
    )


@pytest.mark.parametrize("value", [0, -1, "1h", True, None, 1.5])
def test_a_timeout_that_is_no_number_of_seconds_is_refused_in_one_sentence(value: object) -> None:
    with pytest.raises(InvalidConfiguration, match=r"config\.placeholderTimeoutSeconds is "):
        BACKEND.preconditions(on(placeholderTimeoutSeconds=value))


# Queues -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Queue:
    want: str
    cliqueset: PodCliqueSet = TRAIN
    gang: PodGang = GANG
    config: Manifest = field(default_factory=dict)


def in_queue(**meta: dict[str, str]) -> PodGang:
    return make.gang("train-0", {"train-0-worker": 1}, **meta)  # type: ignore[arg-type]


QUEUES = {
    "nobody names one": Queue(""),
    "the label of the set, mirrored on its gang": Queue("root.a", gang=in_queue(labels={QUEUE: "root.a"})),
    "the annotation": Queue("root.a", gang=in_queue(annotations={QUEUE: "root.a"})),
    "the older label": Queue("root.a", gang=in_queue(labels={"queue": "root.a"})),
    "the newer label before the older": Queue(
        "root.a", gang=in_queue(labels={"queue": "root.b", QUEUE: "root.a"})
    ),
    "a role": Queue("root.a", make.cliqueset("train", [role("worker", 1, labels={QUEUE: "root.a"})])),
    "the profile": Queue("root.a", config={"queue": "root.a"}),
}


@pytest.mark.parametrize("case", QUEUES.values(), ids=QUEUES)
def test_the_queue_of_a_gang(case: Queue) -> None:
    context = on(case.cliqueset, **case.config)
    assert marks(prepared(case.gang, context=context)).get(QUEUE, "") == case.want


def test_roles_of_two_queues_and_names_that_are_no_label_values_are_refused() -> None:
    cliqueset = make.cliqueset(
        "train",
        [
            role("a", 1, annotations={QUEUE: "root.a"}),
            role("b", 1, labels={QUEUE: "root.b"}),
            role("c", 1, annotations={QUEUE: "root.c/d"}),
        ],
    )
    errors = BACKEND.validate(cliqueset, on())
    assert [each.field for each in errors] == [
        f"spec.template.cliques[1].labels[{QUEUE}]",
        f"spec.template.cliques[2].annotations[{QUEUE}]",
    ]
    assert "clique 'a' says 'root.a'" in errors[0].message
    assert "not a valid label value" in errors[1].message


RULES = """
partitions:
  - name: default
    placementrules: [{rules}]
    queues:
      - name: root
        queues:
          - name: serving
          - name: fair
            properties: {{application.sort.policy: fair}}
          - name: teams
            queues: [{{name: a}}]
"""
PROVIDED = RULES.format(rules="{name: provided, create: false}")
NAMED = in_queue(labels={QUEUE: "root.serving"})


def test_a_queue_that_yunikorn_would_ignore_is_reported() -> None:
    assert fidelity(NAMED, on())["gang"] is Fidelity.ENFORCED
    assert Capability.QUEUE not in fidelity(NAMED, on())
    # The built-in configuration, and one without the rule: the queue is named after the namespace.
    assert fidelity(NAMED, on(queues=""))["queue"] is Fidelity.NOT_EXPRESSIBLE
    tagged = RULES.format(rules="{name: tag, value: namespace, create: true}")
    assert fidelity(NAMED, on(queues=tagged))["queue"] is Fidelity.NOT_EXPRESSIBLE
    second = RULES.format(rules="{name: user}, {name: provided}")
    assert fidelity(NAMED, on(queues=second))["queue"] is Fidelity.APPROXIMATED
    assert fidelity(NAMED, on(queues=PROVIDED))["queue"] is Fidelity.ENFORCED


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("root.missing", "waits for the YuniKorn queue 'root.missing'; add it to queues.yaml"),
        ("root.teams", "'root.teams' has queues below it"),
        ("root.fair", "sorts applications by 'fair', and gangs need application.sort.policy fifo"),
    ],
)
def test_a_queue_that_would_get_the_gang_rejected_is_waited_for(queue: str, words: str) -> None:
    gang = in_queue(labels={QUEUE: queue})
    with pytest.raises(Waiting, match=words):
        BACKEND.translate(gang, on(queues=PROVIDED))
    BACKEND.translate(gang, on())


def test_a_missing_queue_is_no_matter_where_yunikorn_creates_queues() -> None:
    creating = RULES.format(rules="{name: provided, create: true}")
    gang = in_queue(labels={QUEUE: "root.new"})
    assert fidelity(gang, on(queues=creating))["queue"] is Fidelity.ENFORCED


@pytest.mark.parametrize("text", ["partitions: 3", ": :", "[]", "partitions: [{name: gpu}]"])
def test_a_configuration_that_nobody_can_read_is_no_reason_to_wait(text: str) -> None:
    assert Capability.QUEUE not in fidelity(NAMED, on(queues=text))


# Requests -----------------------------------------------------------------------------------------

REQUESTS = {
    "containers are added up": (
        {"containers": [container(cpu="500m", memory="1Gi"), container(cpu="1", memory="512Mi")]},
        {"cpu": "1500m", "memory": "1536Mi"},
    ),
    "limits stand for requests that are not said": (
        {
            "containers": [
                {"resources": {"limits": {"nvidia.com/gpu": 8, "cpu": "2"}, "requests": {"cpu": "1"}}}
            ]
        },
        {"cpu": "1", "nvidia.com/gpu": "8"},
    ),
    "the largest init container counts if it is larger": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(memory="1G")]},
        {"cpu": "3", "memory": "1000000000"},
    ),
    "sidecars run beside the containers": (
        {
            "containers": [container(cpu="1")],
            "initContainers": [{**container(cpu="2"), "restartPolicy": "Always"}, container(cpu="500m")],
        },
        {"cpu": "3"},
    ),
    "amounts of the pod replace those of its containers": (
        {"containers": [container(cpu="1", gpu="1")], "resources": {"requests": {"cpu": "4"}}},
        {"cpu": "4", "nvidia.com/gpu": "1"},
    ),
    "overhead comes on top": (
        {"containers": [container(memory="1Gi")], "overhead": {"memory": "64Mi"}},
        {"memory": "1088Mi"},
    ),
    "exponents and fractions": (
        {"containers": [container(cpu="0.1", memory="1e3")]},
        {"cpu": "100m", "memory": "1000"},
    ),
    "nothing asked": ({"containers": [{"name": "main"}]}, {}),
}


@pytest.mark.parametrize(("spec", "want"), REQUESTS.values(), ids=REQUESTS)
def test_a_placeholder_asks_for_what_its_pod_asks_for(spec: Manifest, want: dict[str, str]) -> None:
    assert effective_requests(spec) == want
