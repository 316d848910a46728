"""Custom kinds: definitions, defaults, pruning, validation, CEL rules, scale."""

from __future__ import annotations

import json

from tests.contract.contract import CRDS, Contract, Observation
from tests.contract.objects import Manifest, crd, gang, gang_crd, version


async def _refusal(api: Contract, spec: Manifest) -> Observation:
    return (await api.create(api.gangs, gang("g5", spec))).told


async def check_defaults_of_a_custom_object(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g2", {"minMember": 1}))
    return (await api.get(f"{api.gangs}/g2")).body["spec"]


async def check_unknown_fields_are_pruned_with_a_warning(api: Contract) -> Observation:
    answer = await api.create(
        api.gangs, gang("g3", {"minMember": 1, "bogus": {"x": 1}, "extra": {"keep": 1}})
    )
    return [answer.status, answer.body["spec"], answer.headers.get("Warning")]


async def check_unknown_fields_are_refused_when_strict(api: Contract) -> Observation:
    sent = gang("g4", {"minMember": 1, "bogus": 1})
    return (await api.create(api.gangs, sent, fieldValidation="Strict")).told


async def check_unknown_fields_are_dropped_silently_when_ignored(api: Contract) -> Observation:
    sent = gang("g4", {"minMember": 1, "bogus": 1})
    answer = await api.create(api.gangs, sent, fieldValidation="Ignore")
    return [answer.status, "bogus" in answer.body["spec"], answer.headers.get("Warning")]


async def check_an_unknown_kind_of_field_validation(api: Contract) -> Observation:
    return (await api.create(api.gangs, gang("g4"), fieldValidation="Lax")).refused


async def check_unknown_metadata_of_a_custom_object(api: Contract) -> Observation:
    answer = await api.create(api.gangs, gang("g4", bogus="x"), fieldValidation="Strict")
    return answer.told


async def check_a_required_field(api: Contract) -> Observation:
    return await _refusal(api, {"replicas": 3})


async def check_a_minimum(api: Contract) -> Observation:
    return await _refusal(api, {"minMember": 0})


async def check_a_maximum(api: Contract) -> Observation:
    return await _refusal(api, {"minMember": 10001, "replicas": 20000})


async def check_a_wrong_type(api: Contract) -> Observation:
    return await _refusal(api, {"minMember": "two"})


async def check_an_enumeration(api: Contract) -> Observation:
    return await _refusal(api, {"minMember": 1, "policy": "No"})


async def check_a_pattern(api: Contract) -> Observation:
    return await _refusal(api, {"minMember": 1, "timeout": "x"})


async def check_a_maximum_length(api: Contract) -> Observation:
    return await _refusal(api, {"minMember": 1, "queue": "q" * 70})


async def check_a_rule(api: Contract) -> Observation:
    return await _refusal(api, {"minMember": 9})


async def check_a_transition_rule(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g3"))
    return (await api.merge(f"{api.gangs}/g3", {"spec": {"queue": "zz"}})).told


async def check_a_duplicate_key_of_a_list_map(api: Contract) -> Observation:
    return await _refusal(api, {"minMember": 1, "roles": [{"name": "a"}, {"name": "a"}]})


async def check_int_or_string(api: Contract) -> Observation:
    word = await api.create(api.gangs, gang("g6", {"minMember": 1, "port": "http"}))
    other = await api.create(api.gangs, gang("g7", {"minMember": 1, "port": {"a": 1}}))
    return [word.status, other.refused]


async def check_null_where_there_is_a_default(api: Contract) -> Observation:
    return (
        (await api.create(api.gangs, gang("g8", {"minMember": 1, "policy": None}))).body["spec"].get("policy")
    )


async def check_a_float_that_is_whole(api: Contract) -> Observation:
    text = json.dumps(gang("g9", {"minMember": 1})).replace('"minMember": 1', '"minMember": 1.0')
    return (await api.create(api.gangs, text.encode())).refused


async def check_scale_of_a_custom_object(api: Contract) -> Observation:
    path = f"{api.gangs}/g3"
    await api.create(api.gangs, gang("g3"))
    before = (await api.get(f"{path}/scale")).body["spec"]
    changed = (await api.merge(f"{path}/scale", {"spec": {"replicas": 9}})).body["spec"]
    return [before, changed, (await api.get(path)).body["spec"]["replicas"]]


async def check_scale_tells_status_and_selector(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g3"))
    await api.merge(f"{api.gangs}/g3/status", {"status": {"ready": 2, "selector": "app=x"}})
    scale = (await api.get(f"{api.gangs}/g3/scale")).body
    return [scale["kind"], scale["apiVersion"], scale["status"]]


async def check_scale_below_zero(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g3"))
    return (await api.merge(f"{api.gangs}/g3/scale", {"spec": {"replicas": -1}})).refused


async def check_a_definition_with_the_wrong_name(api: Contract) -> Observation:
    made = gang_crd()
    made["metadata"]["name"] = "foo.sched.example.com"
    return (await api.create(CRDS, made)).refused


async def check_a_rule_about_a_field_that_does_not_exist(api: Contract) -> Observation:
    made = gang_crd()
    made["metadata"]["name"] = "bads.sched.example.com"
    made["spec"]["names"] = {"kind": "Bad", "plural": "bads"}
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-validations"][0]["rule"] = "self.nope > 1"
    return (await api.create(CRDS, made)).refused


async def check_a_rule_that_compares_different_types(api: Contract) -> Observation:
    rule = {"rule": "self.count == 'one'"}
    spec = {
        "type": "object",
        "properties": {"count": {"type": "integer"}},
        "x-kubernetes-validations": [rule],
    }
    return (
        await api.create(CRDS, crd("odds", f"{api.namespace}.example.com", version("v1", {"spec": spec})))
    ).refused


async def check_a_definition_without_stored_version(api: Contract) -> Observation:
    made = crd("nones", f"{api.namespace}.example.com", version("v1", {"spec": {"type": "object"}}))
    made["spec"]["versions"][0]["storage"] = False
    return (await api.create(CRDS, made)).refused


async def check_a_definition_whose_schema_is_not_structural(api: Contract) -> Observation:
    made = crd("nones", f"{api.namespace}.example.com", version("v1", {"spec": {"properties": {"a": {}}}}))
    return (await api.create(CRDS, made)).refused


async def check_defaults_are_read_into_older_objects(api: Contract) -> Observation:
    """Objects that were stored before a default existed are read with it, also below status."""
    group = f"{api.namespace}.example.com"
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    plain = {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}, "status": status}
    made = crd("things", group, version("v1", plain, subresources={"status": {}}))
    await api.define(made)
    path = api.path("things", f"{group}/v1")
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": "1"}}
    stored = (await api.create(path, thing)).body
    await api.merge(f"{path}/t/status", {"status": {}})
    before = (await api.get(f"{path}/t")).meta["resourceVersion"]
    properties = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["b"] = {"type": "string", "default": "two"}
    properties["status"]["properties"]["phase"]["default"] = "New"
    patch = {"spec": {"versions": made["spec"]["versions"]}}
    await api.merge(f"{CRDS}/{made['metadata']['name']}", patch)
    await api.until(path, "t", lambda found: found is not None and "b" in found["spec"])
    after = (await api.get(f"{path}/t")).body
    await api.delete(f"{CRDS}/{made['metadata']['name']}")
    return [
        stored["spec"],
        after["spec"],
        after.get("status"),
        after["metadata"]["resourceVersion"] == before,
    ]


async def check_defaults_below_the_status_of_a_new_object(api: Contract) -> Observation:
    group = f"{api.namespace}.example.com"
    phase = {"type": "string", "default": "New"}
    status = {"type": "object", "default": {}, "properties": {"phase": phase}}
    made = crd("things", group, version("v1", {"status": status}, subresources={"status": {}}))
    await api.define(made)
    path = api.path("things", f"{group}/v1")
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"}}
    created = (await api.create(path, thing)).body
    read = (await api.get(f"{path}/t")).body
    await api.delete(f"{CRDS}/{made['metadata']['name']}")
    return [created.get("status"), read.get("status")]


async def check_two_versions_of_one_kind(api: Contract) -> Observation:
    group = f"{api.namespace}.example.com"
    spec = {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}
    made = crd("things", group, version("v1", spec), version("v1beta1", spec))
    await api.define(made)
    thing = {"apiVersion": f"{group}/v1beta1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": "1"}}
    created = (await api.create(api.path("things", f"{group}/v1beta1"), thing)).body
    read = (await api.get(f"{api.path('things', f'{group}/v1')}/t")).body
    await api.delete(f"{CRDS}/{made['metadata']['name']}")
    return [created["apiVersion"] == f"{group}/v1beta1", read["apiVersion"] == f"{group}/v1", read["spec"]]


async def check_deleting_a_definition_deletes_its_objects(api: Contract) -> Observation:
    group = f"{api.namespace}.example.com"
    made = crd("things", group, version("v1", {"spec": {"type": "object"}}))
    await api.define(made)
    path = api.path("things", f"{group}/v1")
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"}}
    await api.create(path, thing)
    answer = await api.delete(f"{CRDS}/{made['metadata']['name']}")
    gone = await api.gone(CRDS, made["metadata"]["name"])
    return [answer.status, gone, (await api.get(f"{path}/t")).status]


async def check_rules_of_the_kinds_that_grove_uses(api: Contract) -> Observation:
    """Messages made by expressions, optional old values, reasons, paths and Kubernetes' own functions."""
    group = f"{api.namespace}.example.com"
    rules = [
        {
            "rule": "self.names.all(n, n.startsWith('a'))",
            "messageExpression": "self.size > 1 ? 'many' : 'few'",
        },
        {
            "rule": "self.size <= 3",
            "message": "too big",
            "fieldPath": ".size",
            "reason": "FieldValueForbidden",
        },
        {
            "rule": "!oldSelf.hasValue() || self.size >= oldSelf.value().size",
            "message": "never smaller",
            "optionalOldSelf": True,
        },
        {"rule": "self.names.isSorted()", "message": "sort them"},
        {"rule": "!has(self.cpu) || quantity(self.cpu).isLessThan(quantity('2'))", "message": "too much"},
    ]
    spec = {
        "type": "object",
        "required": ["size", "names"],
        "properties": {
            "size": {"type": "integer"},
            "names": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 9}},
            "cpu": {"type": "string", "maxLength": 9},
        },
        "x-kubernetes-validations": rules,
    }
    made = crd("things", group, version("v1", {"spec": spec}))
    await api.define(made)
    path = api.path("things", f"{group}/v1")

    def thing(**spec: object) -> Manifest:
        body = {"size": 2, "names": ["a", "ab"], **spec}
        return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": body}

    answers = [
        await api.create(path, thing(names=["b"])),
        await api.create(path, thing(size=4)),
        await api.create(path, thing(names=["ab", "a"])),
        await api.create(path, thing(cpu="2500m")),
        await api.create(path, thing(cpu="500m")),
        await api.merge(f"{path}/t", {"spec": {"size": 1}}),
    ]
    await api.delete(f"{CRDS}/{made['metadata']['name']}")
    causes = [(answer.body.get("details") or {}).get("causes") for answer in answers]
    return [[answer.status, cause] for answer, cause in zip(answers, causes, strict=True)]


async def check_selecting_by_a_field_of_a_custom_kind(api: Contract) -> Observation:
    await api.create(api.gangs, gang("a", {"minMember": 1, "queue": "fast"}))
    await api.create(api.gangs, gang("b"))
    fast = (await api.get(api.gangs, fieldSelector="spec.queue=fast")).body["items"]
    others = (await api.get(api.gangs, fieldSelector="spec.queue!=fast")).body["items"]
    unknown = await api.get(api.gangs, fieldSelector="spec.nope=fast")
    return [[found["metadata"]["name"] for found in found_in] for found_in in (fast, others)] + [
        unknown.refused
    ]
