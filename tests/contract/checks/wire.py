"""Bodies and shapes on the wire: tables, partial metadata, YAML, protobuf, discovery documents, bad input."""

from __future__ import annotations

import json

from tests.contract.contract import PROTOBUF, TABLE, Contract, Observation
from tests.contract.objects import config_map, gang, pod

MAGIC = b"k8s\x00"


async def check_pods_as_a_table(api: Contract) -> Observation:
    await api.create(api.pods, pod("p1"))
    table = (await api.get(api.pods, accept=TABLE)).body
    columns = [column["name"] for column in table["columnDefinitions"]]
    row = table["rows"][0]
    return [table["kind"], columns, row["cells"][:3], row["object"]["kind"]]


async def check_custom_objects_as_a_table(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g1", {"minMember": 3}))
    await api.merge(f"{api.gangs}/g1/status", {"status": {"phase": "X"}})
    table = (await api.get(api.gangs, accept=TABLE)).body
    columns = [[column["name"], column["type"], column["priority"]] for column in table["columnDefinitions"]]
    return [columns, table["rows"][0]["cells"][:3]]


async def check_a_table_with_whole_objects(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g1"))
    table = (await api.get(f"{api.gangs}/g1", accept=TABLE, includeObject="Object")).body
    return [table["kind"], table["rows"][0]["object"]["kind"], "spec" in table["rows"][0]["object"]]


async def check_only_metadata(api: Contract) -> Observation:
    await api.create(api.maps, config_map("m"))
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    body = (await api.get(api.maps, accept=accept)).body
    return [body["kind"], body["items"][0].get("kind"), "data" in body["items"][0]]


async def check_a_body_that_is_no_json(api: Contract) -> Observation:
    return (await api.create(api.maps, b"{nope")).refused


async def check_an_empty_body(api: Contract) -> Observation:
    return (await api.create(api.maps, b"")).refused


async def check_a_body_of_an_unknown_type(api: Contract) -> Observation:
    return (await api.send("POST", api.maps, b"<xml/>", type="application/xml")).refused


async def check_a_yaml_body(api: Contract) -> Observation:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yb}\n"
    return (await api.send("POST", api.maps, text, type="application/yaml")).status


async def check_a_verb_that_a_path_does_not_have(api: Contract) -> Observation:
    return (await api.put(api.maps, {})).refused


async def check_a_doubled_key_when_strict(api: Contract) -> Observation:
    return (await api.create(api.gangs, _doubled(), fieldValidation="Strict")).told


async def check_a_doubled_key(api: Contract) -> Observation:
    answer = await api.create(api.gangs, _doubled())
    return [answer.status, answer.body["spec"]["minMember"], answer.headers.get("Warning")]


def _doubled() -> bytes:
    text = json.dumps(gang("dk", {"minMember": 1}))
    return text.replace('"minMember": 1', '"minMember": 2, "minMember": 1').encode()


async def check_the_version_says_what_is_served(api: Contract) -> Observation:
    version = (await api.get("/version")).body
    return [version["major"], version["minor"].rstrip("+") == api.minor.partition(".")[2]]


async def check_health(api: Contract) -> Observation:
    answers = [await api.get(path) for path in ("/healthz", "/livez", "/readyz")]
    return [[answer.status, answer.raw.decode()] for answer in answers]


async def check_discovery_of_a_custom_group(api: Contract) -> Observation:
    group = (await api.get("/apis/sched.example.com")).body
    resources = (await api.get("/apis/sched.example.com/v1")).body["resources"]
    named = [[found["name"], found["kind"], sorted(found["verbs"])] for found in resources]
    return [group["kind"], [found["version"] for found in group["versions"]], sorted(named)]


async def check_aggregated_discovery(api: Contract) -> Observation:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = await api.get("/apis", accept=accept)
    group = next(found for found in answer.body["items"] if found["metadata"]["name"] == "sched.example.com")
    resource = group["versions"][0]["resources"][0]
    subresources = sorted(found["subresource"] for found in resource["subresources"])
    kept = {
        key: resource[key] for key in ("resource", "scope", "singularResource", "shortNames", "categories")
    }
    return [answer.headers["Content-Type"], answer.body["kind"], kept, subresources]


async def check_openapi_describes_a_custom_kind(api: Contract) -> Observation:
    index = (await api.get("/openapi/v3")).body["paths"]
    url = index["apis/sched.example.com/v1"]["serverRelativeURL"]
    path, _, query = url.partition("?")
    asked = dict(part.split("=", 1) for part in query.split("&") if part)
    document = (await api.get(path, **asked)).body
    schema = document["components"]["schemas"]["com.example.sched.v1.Gang"]
    return [schema["properties"]["spec"]["required"], schema["x-kubernetes-group-version-kind"]]


# --- protobuf


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _block(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _envelope(api_version: str, kind: str, message: bytes) -> bytes:
    return MAGIC + _block(1, _block(1, api_version) + _block(2, kind)) + _block(2, message)


async def check_a_protobuf_config_map(api: Contract) -> Observation:
    meta = _block(1, "pb") + _block(11, _block(1, "app") + _block(2, "x"))
    message = _block(1, meta) + _block(2, _block(1, "k") + _block(2, "v"))
    answer = await api.send("POST", api.maps, _envelope("v1", "ConfigMap", message), type=PROTOBUF)
    return [answer.status, answer.body.get("data"), answer.meta.get("labels")]


async def check_a_protobuf_lease_keeps_microseconds(api: Contract) -> Observation:
    renewed = _number(1, 1_767_225_600) + _number(2, 123_456_000)
    spec = _block(1, "me") + _number(2, 15) + _block(4, renewed)
    message = _block(1, _block(1, "pb")) + _block(2, spec)
    body = _envelope("coordination.k8s.io/v1", "Lease", message)
    leases = api.path("leases", "coordination.k8s.io/v1")
    answer = await api.send("POST", leases, body, type=PROTOBUF)
    return [answer.status, answer.body.get("spec")]


async def check_a_protobuf_pod(api: Contract) -> Observation:
    limits = _block(1, _block(1, "nvidia.com/gpu") + _block(2, _block(1, "8")))
    container = _block(1, "c") + _block(2, "busybox") + _block(8, limits)
    spec = _block(2, container) + _block(38, _block(1, "a.com/gate"))
    body = _envelope("v1", "Pod", _block(1, _block(1, "pb")) + _block(2, spec))
    answer = await api.send("POST", api.pods, body, type=PROTOBUF)
    made = answer.body["spec"]
    return [answer.status, made["containers"][0]["resources"], made["schedulingGates"]]


async def check_protobuf_that_is_none(api: Contract) -> Observation:
    return (await api.send("POST", api.maps, b"nope", type=PROTOBUF)).refused
