"""Who may do what: tokens, roles, and that nothing is allowed unless somebody allowed it."""

from __future__ import annotations

from tests.contract.contract import Contract, Observation
from tests.contract.objects import Manifest

RBAC = "rbac.authorization.k8s.io/v1"


async def _account(api: Contract, name: str) -> Contract:
    """The server as a fresh service account sees it."""
    accounts = api.path("serviceaccounts")
    await api.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    request: Manifest = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    issued = (await api.create(f"{accounts}/{name}/token", request)).body
    return api.speaking_as(issued["status"]["token"])


async def _grant(api: Contract, name: str, *rules: Manifest) -> None:
    meta = {"name": name}
    role = {"apiVersion": RBAC, "kind": "Role", "metadata": meta, "rules": list(rules)}
    await api.create(api.path("roles", RBAC), role)
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": meta,
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": api.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
    }
    await api.create(api.path("rolebindings", RBAC), binding)


async def check_a_token_that_is_none(api: Contract) -> Observation:
    return (await api.speaking_as("nope").get(api.maps)).told


async def check_nothing_is_allowed_by_itself(api: Contract) -> Observation:
    robot = await _account(api, "robot")
    return (await robot.get(api.maps)).told


async def check_a_role_allows_what_it_names(api: Contract) -> Observation:
    robot = await _account(api, "robot")
    await _grant(api, "robot", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
    # A real server learns of a binding through a watch of its own.
    for _ in range(50):
        listed = await robot.get(api.maps)
        if listed.status == 200:
            break
    refused = [
        await robot.get(f"{api.maps}/x"),
        await robot.get(api.pods),
        await robot.get(api.path("configmaps", namespace="default")),
        await robot.merge(f"{api.gangs}/x/status", {"status": {}}),
    ]
    return [listed.status, [answer.told for answer in refused]]


async def check_a_role_cannot_give_what_its_writer_has_not(api: Contract) -> Observation:
    robot = await _account(api, "robot")
    rule = {"apiGroups": [RBAC.partition("/")[0]], "resources": ["roles"], "verbs": ["create", "get"]}
    await _grant(api, "robot", rule)
    role = {
        "apiVersion": RBAC,
        "kind": "Role",
        "metadata": {"name": "more"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    for _ in range(50):
        if (await robot.get(f"{api.path('roles', RBAC)}/robot")).status == 200:
            break
    return (await robot.create(api.path("roles", RBAC), role)).refused


async def check_asking_whether_one_may(api: Contract) -> Observation:
    robot = await _account(api, "robot")
    asked = {"namespace": api.namespace, "verb": "create", "resource": "pods"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answers = [await who.create(path, review) for who in (api, robot)]
    return [[answer.status, answer.body["status"]["allowed"]] for answer in answers]


async def check_asking_what_one_may(api: Contract) -> Observation:
    robot = await _account(api, "robot")
    await _grant(api, "robot", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
    for _ in range(50):
        if (await robot.get(api.maps)).status == 200:
            break
    answers = []
    # No namespace can have the second name: only what holds in the whole cluster is told of it.
    for namespace in (api.namespace, "-", ""):
        review: Manifest = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        answer = await robot.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
        status = answer.body.get("status")
        if answer.status != 201 or not isinstance(status, dict):
            answers.append(answer.refused)
            continue
        about_maps = [each for each in status["resourceRules"] if each["resources"] == ["configmaps"]]
        answers.append([answer.status, about_maps, status["incomplete"]])
    return answers


async def check_asking_who_one_is(api: Contract) -> Observation:
    robot = await _account(api, "robot")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await robot.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    user = answer.body["status"]["userInfo"]
    return [answer.status, user["username"], sorted(user["groups"])]


async def check_a_token_ends_with_its_account(api: Contract) -> Observation:
    robot = await _account(api, "robot")
    await api.delete(f"{api.path('serviceaccounts')}/robot")
    return (await robot.get(api.maps)).refused


async def check_a_binding_cannot_change_its_role(api: Contract) -> Observation:
    await _grant(api, "robot", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"}
    path = f"{api.path('rolebindings', RBAC)}/robot"
    return (await api.merge(path, {"roleRef": reference})).refused
