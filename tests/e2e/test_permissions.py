"""The shipped permissions are enough (every other test here runs with them); one less is named."""

from __future__ import annotations

import copy

import pytest
import yaml
from tests.e2e.conftest import Plane
from tests.e2e.plane import DEPLOY, SYSTEM, Act, Running, loaded, working
from tests.e2e.scene import role, train

from grove.api import kinds
from grove.cli.connect import Reached
from grove.cli.operating import operator_for
from grove.kube import config
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest, resource

pytestmark = pytest.mark.real

ROLES = resource("rbac.authorization.k8s.io", "v1", "ClusterRole", namespaced=False)
BINDINGS = resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", namespaced=False)


def shipped() -> Manifest:
    documents = yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text(encoding="utf-8"))
    found: Manifest = next(each for each in documents if each["kind"] == "ClusterRole")
    return found


def without(role_: Manifest, verb: str, resource_: str) -> list[Manifest]:
    """The rules of a role less one verb on one resource."""
    rules = []
    for rule in copy.deepcopy(role_["rules"]):
        if resource_ in rule["resources"]:
            others = [each for each in rule["resources"] if each != resource_]
            if others:
                rules.append({**rule, "resources": others})
            rule["resources"] = [resource_]
            rule["verbs"] = [each for each in rule["verbs"] if each != verb]
        if rule["verbs"]:
            rules.append(rule)
    return rules


async def operator_as(act: Act, user: str, rules: list[Manifest]) -> Running:
    """An operator of `grove run` for a user who may do what the rules say."""
    metadata = {"name": f"e2e:{user}"}
    reference = {"apiGroup": ROLES.gvk.group, "kind": ROLES.kind, "name": metadata["name"]}
    subject = {"apiGroup": ROLES.gvk.group, "kind": "User", "name": user}
    await act.scene.apply(
        {"apiVersion": ROLES.api_version, "kind": ROLES.kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": BINDINGS.api_version,
            "kind": BINDINGS.kind,
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        },
    )
    connection = config.load(str(act.world.control.kubeconfig_for(user)))
    transport = HttpTransport(connection)
    limiter = Limiter.off()
    reached = Reached(Client(transport, limiter=limiter), connection, limiter)
    configuration = loaded(act.world.judge.configuration)
    operator = await operator_for(reached, configuration, namespace=SYSTEM, health=False)
    running = Running.of(operator, transport)
    act.operators.append(running)
    await working(running)
    return running


def test_the_shipped_permissions_are_all_that_is_asked_for_with_the_scheduler_of_others(
    other_plane: Plane,
) -> None:
    async def story(act: Act) -> None:
        running = await operator_as(act, "grove-as-shipped", shipped()["rules"])
        assert running.operator.manager.readiness.missing() == []

    other_plane.play("permission", story, operator=False)


@pytest.mark.parametrize(
    ("verb", "target", "named"),
    [
        ("create", "pods", "pods (create)"),
        ("patch", "podgangs/status", "podgangs.scheduler.grove.io/status (patch)"),
        ("update", "podgangs/finalizers", "podgangs.scheduler.grove.io/finalizers (update)"),
    ],
    ids=["pods", "podgangs/status", "podgangs/finalizers"],
)
def test_a_permission_less_is_named_by_the_operator(plane: Plane, verb: str, target: str, named: str) -> None:
    async def story(act: Act) -> None:
        user = f"grove-without-{verb}-{target.replace('/', '-')}"
        running = await operator_as(act, user, without(shipped(), verb, target))
        assert running.operator.manager.readiness.missing() == [f"permissions: not allowed: {named}"]

    plane.play("permission", story, operator=False)


def test_what_was_forbidden_is_done_once_it_is_granted(plane: Plane) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await operator_as(act, "grove-late", without(shipped(), "create", "pods"))
        await scene.nodes(2)
        await scene.apply(train(role("worker", 2)))
        await scene.until(lambda: bool(scene.ledger.all(kinds.CLIQUES)), "the clique exists")
        assert not scene.pods()
        await scene.user.merge_patch(ROLES, Key("", "e2e:grove-late"), {"rules": shipped()["rules"]})
        await scene.until_running("train-0", 2)

    plane.play("granted", story, operator=False)
