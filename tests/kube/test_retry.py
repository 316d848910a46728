"""A request is repeated only where that is safe, and never for ever."""

import random
from dataclasses import dataclass

import pytest
from tests.kube.stub import Reply, client_of, client_to, refusal, reply, serve
from tests.raw import raw

from grove import errors
from grove.kube.client import Client
from grove.kube.config import Connection
from grove.kube.retry import LOST, NOT_SENT, TIMED_OUT, TLS, RetryPolicy, retriable
from grove.kube.transport import HttpTransport
from grove.meta import Key, Object, resource

PODS = resource("", "v1", "Pod")
POD = {"metadata": {"name": "a", "namespace": "x", "resourceVersion": "7"}}
KEY = Key("x", "a")


@dataclass(frozen=True)
class Case:
    failure: errors.ApiError
    idempotent: bool
    other: bool


BUDGET: dict[str, object] = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}]}
CASES = {
    "429": Case(errors.TooManyRequests("", status=429), True, True),
    "429 of a disruption budget": Case(errors.TooManyRequests("", status=429, details=BUDGET), False, False),
    "503": Case(errors.ServerError("", status=503), True, False),
    "502": Case(errors.ServerError("", status=502), True, False),
    "500": Case(errors.ServerError("", status=500), False, False),
    "500 with Retry-After": Case(errors.ServerError("", status=500, retry_after=1), True, False),
    "refused": Case(errors.Unreachable("", reason=NOT_SENT), True, True),
    "reset": Case(errors.Unreachable("", reason=LOST), True, False),
    "timed out": Case(errors.Unreachable("", reason=TIMED_OUT), True, False),
    "certificate": Case(errors.Unreachable("", reason=TLS), False, False),
    "conflict": Case(errors.Conflict("", status=409), False, False),
    "not found": Case(errors.NotFound("", status=404), False, False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_may_be_repeated(case: Case) -> None:
    assert retriable(case.failure, idempotent=True) is case.idempotent
    assert retriable(case.failure, idempotent=False) is case.other


def test_waits_double_up_to_a_ceiling() -> None:
    policy = RetryPolicy(attempts=6, first=1, longest=4, jitter=0, budget=100)
    failure = errors.ServerError("", status=503)
    waits = [policy.wait(attempt, failure, idempotent=True, spent=0) for attempt in range(1, 7)]
    assert waits == [1, 2, 4, 4, 4, None]


def test_jitter_comes_from_the_given_generator() -> None:
    def waits(seed: int) -> list[float | None]:
        policy = RetryPolicy(first=1, jitter=0.25, rng=random.Random(seed))
        return [
            policy.wait(1, errors.ServerError("", status=503), idempotent=True, spent=0) for _ in range(5)
        ]

    assert waits(1) == waits(1) != waits(2)
    assert all(wait is not None and 0.75 <= wait <= 1.25 for wait in waits(3))


def test_the_server_may_ask_for_more_time_but_not_for_more_than_the_budget() -> None:
    policy = RetryPolicy(first=0, jitter=0, budget=30)
    assert policy.wait(1, errors.TooManyRequests("", retry_after=20), idempotent=False, spent=0) == 20
    assert policy.wait(2, errors.TooManyRequests("", retry_after=20), idempotent=False, spent=20) is None


async def test_a_read_survives_an_overloaded_server() -> None:
    async with (
        serve(refusal(503), refusal(429, Retry_After="0"), reply(POD)) as stub,
        client_of(stub) as client,
    ):
        pod = await client.get(PODS, KEY, type=Object)
        assert (pod.name, len(stub.asked)) == ("a", 3)


async def test_a_read_survives_a_connection_that_breaks_before_the_answer() -> None:
    async with serve(Reply(drop=True), Reply(drop=True), reply(POD)) as stub, client_of(stub) as client:
        assert (await client.get(PODS, KEY, type=Object)).name == "a"


async def test_retries_end() -> None:
    async with (
        serve(refusal(503, "ServiceUnavailable", "busy")) as stub,
        client_of(stub, attempts=3) as client,
    ):
        with pytest.raises(errors.ServerError, match="busy"):
            await client.get(PODS, KEY, type=Object)
        assert len(stub.asked) == 3


async def test_retries_end_when_the_time_for_waiting_is_used_up() -> None:
    policy = RetryPolicy(attempts=50, first=0.001, longest=0.001, jitter=0, budget=0.0035)
    async with serve(refusal(503, "ServiceUnavailable", "busy")) as stub:
        client = Client(HttpTransport(Connection(stub.url)), retries=policy)
        with pytest.raises(errors.ServerError, match="busy"):
            await client.get(PODS, KEY, type=Object)
        await client.close()
        assert len(stub.asked) == 4


async def test_a_post_is_repeated_after_429() -> None:
    async with serve(refusal(429, "TooManyRequests"), reply(POD, 201)) as stub, client_of(stub) as client:
        assert (await client.create(PODS, POD)).metadata.resource_version == "7"
        assert [asked.method for asked in stub.asked] == ["POST", "POST"]


ONCE = {"a broken connection": Reply(drop=True), "503": refusal(503, Retry_After="0"), "504": refusal(504)}


@pytest.mark.parametrize("answer", ONCE.values(), ids=ONCE)
async def test_a_post_that_may_have_been_executed_is_not_repeated(answer: Reply) -> None:
    async with serve(answer) as stub, client_of(stub) as client:
        with pytest.raises(errors.ApiError):
            await client.create(PODS, POD)
        assert len(stub.asked) == 1


async def test_a_json_patch_is_not_repeated_because_its_tests_would_fail_on_their_own_success() -> None:
    async with serve(Reply(drop=True)) as stub, client_of(stub) as client:
        with pytest.raises(errors.Unreachable):
            await client.json_patch(PODS, KEY, [{"op": "remove", "path": "/spec/schedulingGates/0"}])
        assert len(stub.asked) == 1


async def test_merge_patch_apply_replace_and_delete_are_repeated() -> None:
    for verb in ("merge", "apply", "replace", "delete"):
        async with serve(refusal(503), reply(POD)) as stub, client_of(stub) as client:
            match verb:
                case "merge":
                    await client.merge_patch(PODS, KEY, {})
                case "apply":
                    await client.apply(PODS, POD)
                case "replace":
                    await client.replace(PODS, POD)
                case "delete":
                    await client.delete(PODS, KEY)
            assert len(stub.asked) == 2, verb


async def test_nobody_listening_is_unreachable_and_says_where() -> None:
    async with serve() as stub:
        url = stub.url
    async with client_to(Connection(url), attempts=2) as client:
        with pytest.raises(
            errors.Unreachable, match=f"POST {url}/api/v1/namespaces/x/pods failed: no connection"
        ) as e:
            await client.create(PODS, POD)
        assert e.value.reason == NOT_SENT


async def test_an_answer_that_does_not_come_in_time_is_unreachable() -> None:
    hanging = Reply(chunks=[], then="hang")
    async with serve(hanging) as stub, client_of(stub, attempts=1) as client:
        with pytest.raises(errors.Unreachable, match="no answer in time") as caught:
            await raw(client, "GET", "/slow", timeout=0.02)
        assert caught.value.reason == TIMED_OUT


async def test_a_closed_client_says_so() -> None:
    async with serve() as stub, client_of(stub) as client:
        await client.close()
        with pytest.raises(errors.Unreachable, match="has been closed"):
            await client.version()
