"""What no client should send: the answer is a refusal with its reason, never an error of the server itself.

The codes are those of a real API server of 1.36, unless the case says that ours is stricter.
"""

from __future__ import annotations

import asyncio
import base64
import time
from dataclasses import dataclass, field

import msgspec
import pytest
from tests.embedded.bare_cluster import CRDS, MAPS, PODS, config_map, json_of, send, with_cluster
from tests.embedded.server.test_http import OPTIONS, session

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.local import LocalClient
from grove.embedded.server.http import LARGEST_BODY
from grove.embedded.server.negotiation import DEEPEST

NS = "/api/v1/namespaces/default"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
YAML = "application/yaml"
encode = msgspec.json.encode


def nested(depth: int) -> bytes:
    return b'{"metadata":{"name":"deep"},"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


def token(text: str) -> dict[str, str]:
    return {"limit": "1", "continue": base64.urlsafe_b64encode(text.encode()).decode()}


ALIASES = "metadata: {name: x}\ndata:\n  a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"  {new}: &{new} [{','.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


@dataclass(frozen=True)
class Case:
    want: int
    method: str = "POST"
    path: str = MAPS
    body: bytes = b""
    kind: str = "application/json"
    query: dict[str, str] = field(default_factory=dict)


def listed(want: int, **query: str) -> Case:
    return Case(want, "GET", query=query)


def patch(want: int, body: bytes, kind: str = MERGE_PATCH) -> Case:
    return Case(want, "PATCH", f"{MAPS}/known", body, kind, {"fieldManager": "test"})


def operations(want: int, *steps: object) -> Case:
    return patch(want, encode(steps), JSON_PATCH)


CASES = {
    "a negative limit is none": listed(200, limit="-1"),
    "a limit of letters": listed(400, limit="abc"),
    "a limit beyond 64 bits": listed(400, limit="99999999999999999999"),
    "a limit in other digits": listed(400, limit="٣"),
    "a resourceVersion in other digits": listed(400, resourceVersion="٣"),
    "a selector with an open parenthesis": listed(400, labelSelector="a in ("),
    "a selector that ends with a comma": listed(400, labelSelector="a,"),
    "a field selector with an unescaped sign": listed(400, fieldSelector="metadata.name=a=b"),
    "a field selector with a broken escape": listed(400, fieldSelector="metadata.name=a\\x"),
    "a continue token of anything": listed(400, **{"continue": "x" * 60_000}),
    "a continue token that is nested deeply": listed(400, **token("[" * 5000)),
    "a continue token of an infinite version": listed(400, **token('{"rv":1e400,"start":["a","b"]}')),
    "JSON nested beyond any stack": Case(400, body=nested(100_000)),
    "JSON nested beyond Python's stack": Case(400, body=nested(900)),
    "JSON nested a little too deep": Case(400, body=nested(DEEPEST + 1)),
    "YAML nested beyond Python's stack": Case(400, body=b"[" * 5000 + b"]" * 5000, kind=YAML),
    "YAML aliases that grow without end": Case(400, body=ALIASES.encode(), kind=YAML),
    "YAML that contains itself": Case(400, body=b"metadata: &a {name: x, labels: *a}", kind=YAML),
    "YAML with a list as a key": Case(400, body=b"metadata: {name: x}\ndata: {[a]: b}", kind=YAML),
    "YAML that would call something": Case(400, body=b"a: !!python/object/apply:os.getcwd []", kind=YAML),
    "bytes that are no UTF-8": Case(400, body=b'{"metadata":{"name":"\xff"}}'),
    "half a character": Case(400, body=b'{"metadata":{"name":"\\ud800"}}'),
    "a type of content that nobody knows": Case(415, body=b"{}", kind="text/plain"),
    "protobuf that is none": Case(400, body=b"k8s\0\xff\xff\xff", kind="application/vnd.kubernetes.protobuf"),
    "a list as metadata": Case(400, body=b'{"metadata":[]}'),
    "a number as metadata of a merge patch": patch(400, b'{"metadata":1}'),
    "a number as metadata of a JSON patch": patch(400, b'{"metadata":1}', JSON_PATCH),
    "an empty patch": patch(400, b""),
    "a patch of no known type": patch(415, b"{", "application/json"),
    "an apply of a number": patch(400, b"1", APPLY),
    "an apply with endless aliases": patch(400, ALIASES.encode(), APPLY),
    "an operation without a path": operations(422, {"op": "add"}),
    "an operation that nobody knows": operations(422, {"op": "nope", "path": "/data"}),
    "a move into itself": operations(422, {"op": "move", "from": "/data", "path": "/data/x"}),
    "a copy of nothing": operations(422, {"op": "copy", "from": "/nope", "path": "/a"}),
    "ten thousand and one operations": operations(
        413, *[{"op": "test", "path": "/data/a", "value": "b"}] * 10_001
    ),
    "copies that double the object": operations(
        422, *[{"op": "copy", "from": "/data", "path": f"/data/c{number}"} for number in range(40)]
    ),
    "a number beyond 64 bits": Case(
        400,
        path=PODS,
        body=b'{"metadata":{"name":"p"},"spec":{"terminationGracePeriodSeconds":1' + b"0" * 30 + b"}}",
    ),
    "a quantity without end": Case(
        400,
        path=PODS,
        body=b'{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i",'
        b'"resources":{"limits":{"cpu":"1e999999999"}}}]}}',
    ),
    "preconditions of a number": Case(400, "DELETE", f"{MAPS}/known", b'{"preconditions":1}'),
    "a dry run of a number": Case(400, "DELETE", f"{MAPS}/known", b'{"dryRun":1}'),
    "a dry run of anything": Case(422, "DELETE", f"{MAPS}/known", b'{"dryRun":["x"]}'),
    "a token for a text of seconds": Case(
        400, path=f"{NS}/serviceaccounts/default/token", body=b'{"spec":{"expirationSeconds":"x"}}'
    ),
    "a token for ever": Case(
        422, path=f"{NS}/serviceaccounts/default/token", body=b'{"spec":{"expirationSeconds":99999999999999}}'
    ),
    "a binding without metadata": Case(400, path=f"{NS}/bindings", body=b'{"metadata":1}'),
    "a scale of a number": Case(
        400, "PUT", "/apis/apps/v1/namespaces/default/deployments/x/scale", b'{"spec":1}'
    ),
    "a review of a number": Case(
        400, path="/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=b'{"spec":1}'
    ),
    "a review of a token of a number": Case(
        400, path="/apis/authentication.k8s.io/v1/tokenreviews", body=b'{"spec":{"token":1}}'
    ),
    "a CRD with a pattern that is none": Case(
        422,
        path=CRDS,
        body=encode(
            {
                "metadata": {"name": "as.x.io"},
                "spec": {
                    "group": "x.io",
                    "scope": "Namespaced",
                    "names": {"plural": "as", "kind": "A"},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {
                                    "type": "object",
                                    "properties": {"spec": {"type": "string", "pattern": "("}},
                                }
                            },
                        }
                    ],
                },
            }
        ),
    ),
    "a path with a NUL": Case(404, "GET", f"{MAPS}/\0"),
    "a namespace with a NUL": Case(404, "GET", "/api/v1/namespaces/\0/configmaps/x"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_request_is_answered_with_what_is_wrong(case: Case) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, {**config_map("known"), "data": {"a": "b"}})
        before = cluster.store.revision
        begin = time.perf_counter()
        headers = {"content-type": case.kind}
        answer = await send(cluster, case.method, case.path, case.body, headers=headers, query=case.query)
        assert time.perf_counter() - begin < 5
        assert answer.status == case.want, json_of(answer)
        assert cluster.store.revision == before

    with_cluster(body)


def test_nulls_in_lists_are_what_go_makes_of_them_and_break_nobody() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        rules = {"metadata": {"name": "r"}, "rules": [None]}
        await client.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", rules)
        await client.create(f"{NS}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [None]}})
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec})

    with_cluster(body)


def test_what_is_nested_almost_as_deep_as_allowed_can_be_created_patched_and_applied() -> None:
    deep: object = "x"
    for _ in range(DEEPEST - 10):
        deep = {"a": deep}
    crd = {
        "metadata": {"name": "as.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "as", "kind": "A"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    path = "/apis/x.io/v1/namespaces/default/as"

    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, crd)
        made = {"apiVersion": "x.io/v1", "kind": "A", "metadata": {"name": "deep"}, "spec": deep}
        await client.create(path, made)
        await client.patch(f"{path}/deep", {"spec": {"b": deep["a"]}})  # type: ignore[index]
        replace = {"op": "add", "path": "/spec/c", "value": "x"}
        await client.patch(f"{path}/deep", [replace], content_type=JSON_PATCH)
        applied = await client.patch(
            f"{path}/deep", made, content_type=APPLY, fieldManager="me", force="true"
        )
        assert applied["spec"]["c"] == "x"
        await client.update(f"{path}/deep", applied)

    with_cluster(body)


def test_many_operations_on_a_large_object_do_not_stop_others() -> None:
    async def main() -> tuple[int, float]:
        async with EmbeddedCluster(OPTIONS) as cluster, session(cluster) as http:
            large = {**config_map("large"), "data": {f"k{number}": "x" * 90 for number in range(5000)}}
            (await http.post(MAPS, json=large)).release()
            same = {"op": "test", "path": "/data", "value": large["data"]}
            steps = [
                {**same, "value": {**large["data"]}},
                *[{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 9998,
            ]
            patching = asyncio.create_task(
                http.patch(f"{MAPS}/large", json=steps, headers={"Content-Type": JSON_PATCH})
            )
            longest = 0.0
            while not patching.done():
                begin = time.perf_counter()
                async with http.get("/healthz") as answer:
                    assert answer.status == 200
                longest = max(longest, time.perf_counter() - begin)
            return (await patching).status, longest

    status, longest = asyncio.run(asyncio.wait_for(main(), 60))
    assert status == 200
    assert longest < 2


def test_over_https_bad_encodings_tokens_and_sizes_are_refused() -> None:
    async def main() -> list[int]:
        async with EmbeddedCluster(OPTIONS) as cluster, session(cluster) as http:
            seen = []
            large = b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * LARGEST_BODY + b'"}}'
            requests: list[tuple[bytes, dict[str, str]]] = [
                (b"not gzip", {"Content-Encoding": "gzip"}),
                (b"not deflate", {"Content-Encoding": "deflate"}),
                (b"{}", {"Authorization": "Bearer t\u00f6ken.x\u00e9"}),
                (b"{}", {"Impersonate-User": "x\udce9"}),
                (b"{}", {"Impersonate-Group": "g"}),
                (large, {}),
                (encode(config_map("fine")), {}),
            ]
            for content, headers in requests:
                typed = {"Content-Type": "application/json", **headers}
                async with http.post(MAPS, data=content, headers=typed) as answer:
                    seen.append(answer.status)
                    assert (await answer.json())["kind"] in ("Status", "ConfigMap")
            return seen

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [400, 400, 401, 403, 400, 413, 201]
