"""Which writes an API server asks about, and which it never holds up."""

import base64

import pytest

from grove.embedded.machinery import conditions as match_conditions
from grove.meta import Manifest
from grove.webhook.registrations import ALWAYS_ALLOWED, ServedAt, desired_webhook_configurations

USER = "system:serviceaccount:grove-system:grove-operator"


def webhooks(at: ServedAt | None = None, **options: object) -> dict[str, Manifest]:
    chosen = at or ServedAt("grove-system", ca_bundle=b"PEM")
    found = desired_webhook_configurations(chosen, operator=USER, authorizer=True)
    return {each["name"]: each for configuration in found for each in configuration["webhooks"]}


def asked(name: str, request: Manifest) -> bool:
    """Whether the API server would call a webhook whose rules match."""
    full: Manifest = {"userInfo": {"username": "alice"}, "oldObject": None, **request}
    known = {"request": full, "object": full.get("object"), "oldObject": full["oldObject"]}
    listed = webhooks()[name]["matchConditions"]
    return all(match_conditions.holds(each["expression"], known) for each in listed)


def test_names_and_paths_are_those_of_the_go_operator() -> None:
    found = desired_webhook_configurations(ServedAt("grove-system"), operator=USER)
    assert [(each["kind"], each["metadata"]["name"]) for each in found] == [
        ("MutatingWebhookConfiguration", "podcliqueset-defaulting-webhook"),
        ("ValidatingWebhookConfiguration", "podcliqueset-validating-webhook"),
        ("ValidatingWebhookConfiguration", "clustertopology-validating-webhook"),
        ("ValidatingWebhookConfiguration", "grove-children-validating-webhook"),
    ]
    assert {name: each["clientConfig"]["service"]["path"] for name, each in webhooks().items()} == {
        "pcs.defaulting.webhooks.grove.io": "/webhooks/default-podcliqueset",
        "pcs.validating.webhooks.grove.io": "/webhooks/validate-podcliqueset",
        "clustertopology.validating.webhooks.grove.io": "/webhooks/validate-clustertopology",
        "podclique.validating.webhooks.grove.io": "/webhooks/validate-podclique",
        "podcliquescalinggroup.validating.webhooks.grove.io": "/webhooks/validate-podcliquescalinggroup",
        "podgang.validating.webhooks.grove.io": "/webhooks/validate-podgang",
        "authorizer.webhooks.grove.io": "/webhooks/authorizer-webhook",
    }


def test_all_fail_closed_and_have_no_side_effects() -> None:
    for each in webhooks().values():
        assert (each["failurePolicy"], each["sideEffects"], each["matchPolicy"]) == (
            "Fail",
            "None",
            "Equivalent",
        )
        assert each["timeoutSeconds"] == 10
        assert base64.b64decode(each["clientConfig"]["caBundle"]) == b"PEM"


def test_only_our_kinds_are_asked_about_but_for_what_carries_our_label() -> None:
    for name, each in webhooks().items():
        groups = {group for rule in each["rules"] for group in rule["apiGroups"]}
        if name == "authorizer.webhooks.grove.io":
            assert each["objectSelector"] == {
                "matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}
            }
            (expression,) = each["namespaceSelector"]["matchExpressions"]
            assert expression["operator"] == "NotIn"
            assert expression["values"] == ["grove-system", "kube-system"]
        else:
            assert groups <= {"grove.io", "scheduler.grove.io"}


def test_a_process_outside_of_the_cluster_is_reached_by_its_url() -> None:
    at = ServedAt("default", url="https://127.0.0.1:9443/", ca_bundle=b"PEM")
    client = webhooks(at)["pcs.validating.webhooks.grove.io"]["clientConfig"]
    assert client["url"] == "https://127.0.0.1:9443/webhooks/validate-podcliqueset"
    assert "service" not in client


SET = "pcs.validating.webhooks.grove.io"
OLD: Manifest = {"metadata": {"name": "a", "finalizers": ["x"]}, "spec": {"replicas": 2}}
GOING: Manifest = {"metadata": {"name": "a", "deletionTimestamp": "now"}, "spec": {"replicas": 9}}
CASES = {
    "a creation": ({"operation": "CREATE", "object": OLD}, True),
    "an edit": (
        {"operation": "UPDATE", "object": {**OLD, "spec": {"replicas": 3}}, "oldObject": OLD},
        True,
    ),
    "a new annotation": (
        {"operation": "UPDATE", "object": {**OLD, "metadata": {"annotations": {"a": "b"}}}, "oldObject": OLD},
        True,
    ),
    "a finalizer less": (
        {"operation": "UPDATE", "object": {**OLD, "metadata": {"name": "a"}}, "oldObject": OLD},
        False,
    ),
    "what is being deleted": ({"operation": "UPDATE", "object": GOING, "oldObject": OLD}, False),
    "a scale up": (
        {
            "operation": "UPDATE",
            "subResource": "scale",
            "object": {"metadata": {}, "spec": {"replicas": 3}},
            "oldObject": {"metadata": {}, "spec": {}},
        },
        True,
    ),
    "a scale down to nothing": (
        {
            "operation": "UPDATE",
            "subResource": "scale",
            "object": {"metadata": {}, "spec": {}},
            "oldObject": {"metadata": {}, "spec": {"replicas": 2}},
        },
        False,
    ),
}


@pytest.mark.parametrize(("request_", "want"), CASES.values(), ids=CASES)
def test_what_a_webhook_cannot_object_to_does_not_wait_for_it(request_: Manifest, want: bool) -> None:
    assert asked(SET, request_) is want


def test_the_operator_is_not_asked_about_its_own_children() -> None:
    new = {"operation": "CREATE", "object": OLD}
    assert asked("podgang.validating.webhooks.grove.io", new)
    assert not asked("podgang.validating.webhooks.grove.io", {**new, "userInfo": {"username": USER}})


@pytest.mark.parametrize("user", [USER, *ALWAYS_ALLOWED])
def test_what_must_go_on_goes_on_while_the_authorizer_is_away(user: str) -> None:
    request = {"operation": "DELETE", "object": None, "oldObject": OLD, "userInfo": {"username": user}}
    assert not asked("authorizer.webhooks.grove.io", request)
    assert asked("authorizer.webhooks.grove.io", {**request, "userInfo": {"username": "bob"}})
