"""Admission webhooks: who is asked about what, and what comes of the answers."""

from __future__ import annotations

import json

from tests.contract.contract import Answer, Contract, Observation
from tests.contract.hooks import Hook
from tests.contract.objects import Manifest, binding, config_map, deployment, gang, pod
from tests.contract.webhook_world import adding, distinct, hooked, patching, rule, webhook

CHANGING = adding("/data/hooked", "yes")
DENIED: Manifest = {"allowed": False, "status": {"message": "not today", "code": 403}}


# --- what they change


async def check_a_webhook_changes_an_object(api: Contract) -> Observation:
    answer = {**CHANGING, "warnings": ["mind the gap"]}
    async with hooked(api, "Mutating", webhook(api), answers={"/hook": answer}) as hook:
        made = await api.create(api.maps, config_map("m"))
        question = hook.asked[-1]
    about = [question["operation"], question["resource"], question["name"], question["dryRun"]]
    return [made.body["data"], made.headers.get("Warning"), about]


async def check_a_field_that_a_webhook_added_has_no_manager(api: Contract) -> Observation:
    async with hooked(api, "Mutating", webhook(api), answers={"/hook": CHANGING}):
        made = await api.create(api.maps, config_map("m"))
        changed = await api.merge(f"{api.maps}/m", {"data": {"b": "2", "hooked": None}})
    return [_owned(made.meta), _owned(changed.meta), changed.body["data"]]


def _owned(meta: Manifest) -> object:
    return [entry["fieldsV1"].get("f:data") for entry in meta["managedFields"]]


async def check_a_webhook_changes_a_custom_object(api: Contract) -> Observation:
    """What is unknown goes, what is missing is filled in, what is wrong is refused."""
    about_gangs = webhook(api, rules=[rule("gangs", group="sched.example.com")])
    async with hooked(api, "Mutating", about_gangs) as hook:
        hook.answers["/hook"] = adding("/spec/unknown", 1)
        made = await api.create(api.gangs, gang("a"))
        hook.answers["/hook"] = adding("/spec/minMember", "many")
        refused = await api.create(api.gangs, gang("b"))
    return ["unknown" in made.body["spec"], refused.refused, refused.fields]


async def check_a_webhook_changes_a_pod(api: Contract) -> Observation:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}}
    answer = adding("/spec/containers/0/resources", resources)
    async with hooked(api, "Mutating", webhook(api, rules=[rule("pods")]), answers={"/hook": answer}) as hook:
        made = await api.create(api.pods, pod("p"))
        seen = hook.asked[-1]["object"]
    requests = made.body["spec"]["containers"][0]["resources"].get("requests")
    return [made.body["status"]["qosClass"], requests, seen["spec"].get("priority")]


async def check_webhooks_are_asked_in_order_and_again(api: Contract) -> Observation:
    hooks = [
        webhook(api, "/early", reinvocationPolicy="IfNeeded"),
        webhook(api, "/once"),
        webhook(api, "/late", reinvocationPolicy="IfNeeded"),
    ]
    observed = []
    async with hooked(api, "Mutating", *hooks) as hook:
        for answer in (CHANGING, adding("/data/a", "1"), patching(), {}):
            hook.asked.clear()
            hook.answers["/late"] = answer
            await api.create(api.maps, config_map("m"), dryRun="All")
            observed.append([question["path"] for question in hook.asked])
    return observed


async def check_a_patch_of_a_custom_object_that_changes_nothing(api: Contract) -> Observation:
    rules = [rule("gangs", group="sched.example.com")]
    early = webhook(api, "/early", rules=rules, reinvocationPolicy="IfNeeded")
    answers = {"/late": adding("/spec/minMember", 2)}
    async with hooked(api, "Mutating", early, webhook(api, "/late", rules=rules), answers=answers) as hook:
        await api.create(api.gangs, gang("g"))
        return [question["path"] for question in hook.asked]


async def check_an_earlier_webhook_decides_by_a_label_who_is_asked_next(api: Contract) -> Observation:
    chosen = webhook(api, "/second", objectSelector={"matchLabels": {"team": "x"}})
    answers = {"/first": adding("/metadata/labels", {"team": "x"})}
    async with hooked(api, "Mutating", webhook(api, "/first"), chosen, answers=answers) as hook:
        await api.create(api.maps, config_map("m"))
        return [question["path"] for question in hook.asked]


async def check_a_webhook_cannot_change_the_status_of_an_update(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g"))
    await api.merge(f"{api.gangs}/g/status", {"status": {"phase": "Running"}})
    both = patching(
        {"op": "add", "path": "/status/phase", "value": "Pending"},
        {"op": "add", "path": "/spec/policy", "value": "BestEffort"},
    )
    rules = [rule("gangs", "gangs/status", group="sched.example.com", operations="UPDATE")]
    async with hooked(api, "Mutating", webhook(api, rules=rules), answers={"/hook": both}):
        of_spec = await api.merge(f"{api.gangs}/g", {"spec": {"minMember": 3}})
        of_status = await api.merge(f"{api.gangs}/g/status", {"status": {"phase": "Failed"}})
    return [
        [found.body["spec"].get("policy"), found.body["status"].get("phase")]
        for found in (of_spec, of_status)
    ]


# --- what they refuse


async def check_a_webhook_refuses(api: Contract) -> Observation:
    async with hooked(api, "Validating", webhook(api), answers={"/hook": DENIED}):
        return (await api.create(api.maps, config_map("m"))).told


async def check_refusals_carry_code_reason_and_words_of_a_webhook(api: Contract) -> Observation:
    statuses: list[Manifest | None] = [
        None,
        {},
        {"code": 200, "message": "fine"},
        {"reason": "Conflict"},
        {"code": 422, "reason": "Invalid", "message": "bad", "details": {"name": "x", "kind": "y"}},
    ]
    observed = []
    for kind in ("Mutating", "Validating"):
        async with hooked(api, kind, webhook(api)) as hook:
            for status in statuses:
                hook.answers["/hook"] = {"allowed": False, "status": status}
                answer = await api.create(api.maps, config_map("m"))
                observed.append([answer.told, answer.body.get("details")])
    return observed


async def check_a_refusal_comes_with_warnings(api: Contract) -> Observation:
    answer = {**DENIED, "warnings": ['say "please"', "say\nmore", "x" * 300]}
    async with hooked(api, "Validating", webhook(api), answers={"/hook": answer}):
        answered = await api.create(api.maps, config_map("m"))
    return [answered.status, answered.headers.get("Warning")]


async def check_every_way_to_write_is_refused(api: Contract) -> Observation:
    await api.create(api.maps, config_map("m"))
    async with hooked(api, "Validating", webhook(api), answers={"/hook": DENIED}):
        one = f"{api.maps}/m"
        answers = [
            await api.create(api.maps, config_map("n")),
            await api.put(one, config_map("m", {"a": "2"})),
            await api.merge(one, {"data": {"a": "3"}}),
            await api.strategic(one, {"data": {"a": "4"}}),
            await api.json_patch(one, [{"op": "replace", "path": "/data/a", "value": "5"}]),
            await api.apply(one, config_map("m", {"a": "6"}), manager="me", force=True),
            await api.apply(f"{api.maps}/o", config_map("o"), manager="me"),
            await api.delete(one),
            await api.delete(api.maps, labelSelector="!never"),
        ]
    left = (await api.get(f"{api.maps}/m")).body.get("data")
    return [[answer.refused for answer in answers], left]


# --- what they are asked


async def check_what_a_webhook_is_told_of_a_create(api: Contract) -> Observation:
    other = ("Validating", webhook(api, "/validating"))
    async with hooked(api, "Mutating", webhook(api), also=other) as hook:
        await api.create(api.maps, config_map("m"), fieldManager="me", fieldValidation="Strict")
        await api.create(api.maps, {**config_map(""), "metadata": {"generateName": "x-"}}, dryRun="All")
        return [_told(question) for question in hook.asked]


def _told(question: Manifest) -> Manifest:
    """A question without what differs from run to run."""
    told = {name: value for name, value in question.items() if name not in ("uid", "userInfo")}
    if str(told.get("name", "")).startswith("x-"):
        told["name"] = "made"
    for name in ("object", "oldObject"):
        if told[name] is not None:
            told[name] = sorted(told[name]["metadata"])
    return told


async def check_what_a_webhook_is_told_of_an_update(api: Contract) -> Observation:
    await api.create(api.maps, config_map("m"))
    async with hooked(api, "Validating", webhook(api)) as hook:
        one = f"{api.maps}/m"
        await api.merge(one, {"data": {"a": "2"}}, fieldManager="me")
        await api.apply(one, config_map("m", {"b": "1"}), manager="me", force=True)
        await api.apply(f"{api.maps}/new", config_map("new"), manager="me")
        await api.merge(one, {"data": {"a": "2"}}, dryRun="All")
        return distinct(
            [question[name] for name in ("operation", "name", "dryRun", "options")] for question in hook.asked
        )


async def check_a_webhook_is_asked_about_deletions(api: Contract) -> Observation:
    async with hooked(api, "Validating", webhook(api)) as hook:
        await api.create(api.maps, config_map("m"))
        await api.delete(f"{api.maps}/m")
        last = hook.asked[-1]
    return [last["operation"], last["object"] is None, last["oldObject"]["metadata"]["name"]]


async def check_what_a_webhook_is_told_of_deletions(api: Contract) -> Observation:
    for name in ("a", "b", "c", "d"):
        await api.create(api.maps, config_map(name, labels={"gone": "soon"}))
    other = ("Mutating", webhook(api, "/mutating", rules=[rule(operations="DELETE")]))
    async with hooked(api, "Validating", webhook(api), also=other) as hook:
        await api.delete(f"{api.maps}/a", {"propagationPolicy": "Background", "gracePeriodSeconds": 5})
        await api.delete(f"{api.maps}/b", propagationPolicy="Foreground", dryRun="All")
        await api.delete(f"{api.maps}/b")
        await api.delete(api.maps, labelSelector="gone=soon")
        asked = distinct(_of_deletion(question) for question in hook.asked)
    # The objects of a collection are deleted side by side.
    return [*asked[:6], sorted(asked[6:], key=json.dumps)]


def _of_deletion(question: Manifest) -> list[object]:
    named = [question["path"], question.get("name"), question["oldObject"]["metadata"]["name"]]
    return [*named, question["options"]]


async def check_a_webhook_cannot_change_a_deletion(api: Contract) -> Observation:
    await api.create(api.maps, config_map("m"))
    async with hooked(api, "Mutating", webhook(api), answers={"/hook": CHANGING}):
        return (await api.delete(f"{api.maps}/m")).told


async def check_a_webhook_is_asked_about_scales(api: Contract) -> Observation:
    """Of built-in and custom kinds; what it is shown is the Scale, and what it changes is scaled."""
    deployments = api.path("deployments", "apps/v1")
    await api.create(deployments, deployment("d"))
    await api.create(api.gangs, gang("g"))
    rules = [
        rule("deployments", "deployments/scale", group="apps"),
        rule("gangs", "gangs/scale", group="sched.example.com"),
    ]
    answer = adding("/spec/replicas", 3)
    async with hooked(api, "Mutating", webhook(api, rules=rules), answers={"/hook": answer}) as hook:
        scaled = [
            await api.merge(f"{deployments}/d/scale", {"spec": {"replicas": 5}}),
            await api.merge(f"{api.gangs}/g/scale", {"spec": {"replicas": 5}}),
        ]
        return [
            [answered.body["spec"] for answered in scaled],
            distinct(_of_subresource(question) for question in hook.asked),
        ]


def _of_subresource(question: Manifest) -> list[object]:
    named = [question[name] for name in ("operation", "subResource", "requestSubResource", "name")]
    shown = [
        [found["kind"], sorted(set(found["metadata"]) - {"managedFields"}), found.get("spec")]
        for found in (question["object"], question["oldObject"])
    ]
    return [*named, question["kind"], question["resource"], question["options"]["kind"], shown]


async def check_a_webhook_is_asked_about_bindings_and_evictions(api: Contract) -> Observation:
    """The deletion that an eviction is, is none to webhooks."""
    await api.create(api.pods, pod("p"))
    rules = [rule("pods", "pods/binding", "pods/eviction", "pods/status")]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    async with hooked(api, "Validating", webhook(api, rules=rules)) as hook:
        await api.create(f"{api.pods}/p/binding", binding("p", "nowhere"))
        await api.merge(f"{api.pods}/p/status", {"status": {"message": "x"}})
        await api.create(f"{api.pods}/p/eviction", eviction)
        asked = distinct(
            [question["operation"], question.get("subResource"), question["kind"], question["resource"]]
            for question in hook.asked
        )
        hook.answers["/hook"] = DENIED
        refused = await api.create(f"{api.pods}/p/eviction", eviction)
    return [asked, refused.told]


async def check_a_webhook_is_asked_about_namespaces(api: Contract) -> Observation:
    """A namespace is selected by its own labels."""
    selector = {"matchLabels": {"contract": api.namespace}}
    about = webhook(api, rules=[rule("namespaces")], namespaceSelector=selector)
    namespaces = "/api/v1/namespaces"
    kind = {"apiVersion": "v1", "kind": "Namespace"}
    async with hooked(api, "Validating", about) as hook:
        for labels in ({}, {"contract": api.namespace}):
            made = {**kind, "metadata": {"name": f"{api.namespace}-x", "labels": labels}}
            await api.create(namespaces, made, dryRun="All")
        await api.merge(f"{namespaces}/{api.namespace}", {"metadata": {"annotations": {"a": "b"}}})
        await api.merge(
            f"{namespaces}/{api.namespace}", {"metadata": {"labels": {"contract": api.namespace}}}
        )
        return distinct(
            [question["operation"], question["name"], question["namespace"]] for question in hook.asked
        )


async def check_a_rule_for_another_group_of_the_same_objects(api: Contract) -> Observation:
    events = api.path("events")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": api.namespace},
        "reason": "R",
        "message": "words",
        "type": "Normal",
    }
    rules = [rule("events", group="events.k8s.io")]
    exact = webhook(api, "/exact", rules=rules, matchPolicy="Exact")
    async with hooked(api, "Validating", exact, webhook(api, rules=rules)) as hook:
        await api.create(events, event)
        return [
            [
                *(question[name] for name in ("path", "kind", "resource", "requestKind", "requestResource")),
                question["object"].get("note"),
            ]
            for question in hook.asked
        ]


# --- who is asked


async def check_a_webhook_selects_objects_by_label(api: Contract) -> Observation:
    selector = {"matchExpressions": [{"key": "hook", "operator": "DoesNotExist"}]}
    async with hooked(api, "Validating", webhook(api, objectSelector=selector)) as hook:
        await api.create(api.maps, config_map("plain", labels={"hook": "no"}))
        await api.create(api.maps, config_map("chosen"))
        return [question["name"] for question in hook.asked]


async def check_the_old_or_the_new_object_is_selected(api: Contract) -> Observation:
    await api.create(api.maps, config_map("m", labels={"hook": "yes"}))
    async with hooked(
        api, "Validating", webhook(api, objectSelector={"matchLabels": {"hook": "yes"}})
    ) as hook:
        for value in ("no", "yes"):
            await api.merge(f"{api.maps}/m", {"metadata": {"labels": {"hook": value}}})
        await api.delete(f"{api.maps}/m")
        return distinct([question["operation"], _label(question["object"])] for question in hook.asked)


def _label(obj: Manifest | None) -> object:
    return obj and obj["metadata"]["labels"]["hook"]


async def check_a_webhook_of_another_namespace(api: Contract) -> Observation:
    elsewhere = webhook(api, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "other"}})
    async with hooked(api, "Validating", elsewhere, answers={"/hook": DENIED}) as hook:
        made = await api.create(api.maps, config_map("m"))
        return [made.status, len(hook.asked)]


RULES: dict[str, Manifest] = {
    "operation": rule(operations="UPDATE"),
    "group": rule(group="apps"),
    "version": rule(version="v2"),
    "subresources": rule("configmaps/status"),
    "all subresources": rule("*/status"),
    "cluster": {**rule(), "scope": "Cluster"},
    "namespaced": {**rule(), "scope": "Namespaced"},
    "resource and subresources": rule("configmaps/*"),
    "everything": {**rule("*/*", group="*", version="*")},
    "all resources": rule("*"),
}


async def check_which_rules_match(api: Contract) -> Observation:
    hooks = [webhook(api, f"/r{index}", rules=[found]) for index, found in enumerate(RULES.values())]
    async with hooked(api, "Validating", *hooks) as hook:
        await api.create(api.maps, config_map("m"))
        paths = {question["path"] for question in hook.asked}
        return {name: f"/r{index}" in paths for index, name in enumerate(RULES)}


CONDITIONS: dict[str, list[str]] = {
    "true": ["object.metadata.name == 'm' && oldObject == null"],
    "false": ["object.metadata.name != 'm'"],
    "one is false": ["true", "false"],
    "about the request": [
        "request.operation == 'CREATE' && request.resource.resource == 'configmaps' && !request.dryRun"
    ],
    "who asks": ["'system:masters' in request.userInfo.groups"],
    "optional": ["has(object.data.a) && !has(object.metadata.labels)"],
    "false beside an error": ["object.spec.x == 1", "false"],
}


async def check_which_conditions_match(api: Contract) -> Observation:
    hooks = [
        webhook(api, f"/c{index}", matchConditions=_conditions(found))
        for index, found in enumerate(CONDITIONS.values())
    ]
    async with hooked(api, "Validating", *hooks) as hook:
        made = await api.create(api.maps, config_map("m"))
        paths = {question["path"] for question in hook.asked}
        asked: Manifest = {name: f"/c{index}" in paths for index, name in enumerate(CONDITIONS)}
        return {"status": made.status, **asked}


def _conditions(expressions: list[str]) -> list[Manifest]:
    return [{"name": f"c{index}", "expression": text} for index, text in enumerate(expressions)]


async def check_a_condition_that_fails(api: Contract) -> Observation:
    """Refuses the write or leaves the webhook out."""
    observed = []
    for policy in ("Fail", "Ignore"):
        conditions = _conditions(["object.metadata.labels['x'] == 'y'"])
        failing = webhook(api, matchConditions=conditions, failurePolicy=policy)
        async with hooked(api, "Validating", failing) as hook:
            made = await api.create(api.maps, config_map("m"), dryRun="All")
            observed.append([made.told, len(hook.asked)])
    return observed


# --- when they fail


async def check_a_webhook_that_cannot_be_reached(api: Contract) -> Observation:
    """Refuses by default; is passed over when its policy says so."""
    return [(await _unreachable(api, policy)).refused for policy in ("Fail", "Ignore")]


async def check_what_is_told_of_a_webhook_that_cannot_be_reached(api: Contract) -> Observation:
    return (await _unreachable(api, "Fail")).told


async def _unreachable(api: Contract, policy: str) -> Answer:
    dead = webhook(api, failurePolicy=policy, clientConfig={"url": "https://127.0.0.1:1/x"})
    async with hooked(api, "Validating", dead):
        return await api.create(api.maps, config_map("m"), dryRun="All")


async def check_a_webhook_whose_service_is_not_there(api: Contract) -> Observation:
    service = {"namespace": "default", "name": "nobody", "path": "/x"}
    async with hooked(api, "Mutating", webhook(api, clientConfig={"service": service})):
        return (await api.create(api.maps, config_map("m"))).told


async def check_a_webhook_whose_certificate_is_not_trusted(api: Contract) -> Observation:
    async with hooked(api, "Validating", webhook(api)) as hook:
        path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{api.namespace}"
        await api.json_patch(path, [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}])
        told = await api.create(api.maps, config_map("m"), dryRun="All")
        for _ in range(200):
            if told.status != 201:
                break
            told = await api.create(api.maps, config_map("m"), dryRun="All")
        message = str(told.body.get("message"))
        return [told.refused, message.replace(hook.url, "URL")]


GOOD = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
FAILURES: dict[str, tuple[str, Manifest]] = {
    "no response": ("Validating", {"raw": json.dumps(GOOD).encode()}),
    "to another question": ("Validating", {"uid": "other"}),
    "a patch of a validating webhook": ("Validating", CHANGING),
    "a patch without its type": ("Mutating", {**CHANGING, "patchType": None}),
    "a type without a patch": ("Mutating", {"patchType": "JSONPatch"}),
    "an error": ("Validating", {"raw": b"oh no", "http": 500, "type": "text/plain"}),
    "an error without words": ("Validating", {"raw": b"", "http": 503, "type": "text/plain"}),
    "not found": ("Validating", {"raw": b"404", "http": 404, "type": "text/plain"}),
    "unauthorized": ("Validating", {"raw": b"401", "http": 401, "type": "text/plain"}),
}


async def check_answers_that_are_none(api: Contract) -> Observation:
    observed: Manifest = {}
    for kind in ("Validating", "Mutating"):
        async with hooked(api, kind, webhook(api)) as hook:
            for name, (which, answer) in FAILURES.items():
                if which == kind:
                    hook.answers["/hook"] = answer
                    observed[name] = _without_uid(hook, (await api.create(api.maps, config_map("m"))).told)
    return observed


def _without_uid(hook: Hook, told: list[object]) -> list[object]:
    return [str(part).replace(hook.asked[-1]["uid"], "UID") for part in told]


async def check_answers_that_cannot_be_read(api: Contract) -> Observation:
    answers: list[Manifest] = [
        {"raw": b"{"},
        {"raw": json.dumps({**GOOD, "kind": "Review", "response": {"allowed": True}}).encode()},
        {"patchType": "Merge", "patch": CHANGING["patch"]},
        {"patchType": "JSONPatch", "patch": "bm9uZQ=="},
        adding("/spec/nowhere/x", 1),
        adding("/data", 5),
        patching({"op": "test", "path": "/data/a", "value": "other"}),
    ]
    observed = []
    for policy in ("Fail", "Ignore"):
        async with hooked(api, "Mutating", webhook(api, failurePolicy=policy)) as hook:
            for answer in answers:
                hook.answers["/hook"] = answer
                observed.append((await api.create(api.maps, config_map("m"), dryRun="All")).refused)
    return observed
