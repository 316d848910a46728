"""Any request to an API server, for what Grove's own client has no verb: bindings, evictions, logs."""

from collections.abc import Sequence

from grove.kube.client import Client
from grove.kube.exchange import Call
from grove.kube.transport import Response


async def raw(
    client: Client,
    method: str,
    path: str,
    *,
    query: Sequence[tuple[str, str]] = (),
    body: bytes | None = None,
    content_type: str = "",
    accept: str = "*/*",
    timeout: float | None = None,
) -> Response:
    """The undecoded answer; one of 300 and above is raised, as with every other verb."""
    idempotent = method in ("GET", "HEAD", "PUT", "DELETE")
    call = Call(method, path, tuple(query), body, content_type, accept, idempotent)
    return await client._exchange.answer(call, timeout=timeout)
