"""Where a Service really listens: the embedded cluster has no network, its webhooks run on this machine.

Whoever runs the cluster may say it (`ClusterOptions.services`): an address, or a function of this process
that answers. Otherwise the Service's EndpointSlices are followed, which may name the loopback here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from grove.embedded.errors import Manifest
from grove.embedded.verbs.webhooks.answers import Failed

Address = tuple[str, int]
"""Host and port."""
Program = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""(path with query, body) -> (status, body): a server without sockets, which also works on virtual time."""
Services = Mapping[tuple[str, str], Address | Program]
"""(namespace, name) of a Service -> where it listens."""


class ServiceDirectory:
    """Looks Services up at every call: pods and addresses come and go."""

    def __init__(
        self,
        known: Services,
        *,
        find: Callable[[str, str, str, str], Manifest | None],
        all_of: Callable[[str, str, str], list[Manifest]],
    ) -> None:
        self._known = known
        self._find = find
        self._all_of = all_of

    def locate(self, namespace: str, name: str, port: int) -> Address | Program:
        """Where a port of a Service is answered; raises `Failed` when nobody answers it."""
        known = self._known.get((namespace, name))
        if known is not None:
            return known
        service = self._find("", "services", namespace, name)
        if service is None:
            raise Failed(f'service "{name}" not found')
        ports = (service.get("spec") or {}).get("ports") or ()
        wanted = next((found for found in ports if found.get("port") == port), None)
        if wanted is None:
            raise Failed(f'no service port {port} found for service "{name}"')
        for endpoints in self._all_of("discovery.k8s.io", "endpointslices", namespace):
            labels = endpoints["metadata"].get("labels") or {}
            if labels.get("kubernetes.io/service-name") == name:
                address = _ready_address(endpoints, wanted.get("name") or "")
                if address is not None:
                    return address
        raise Failed(f'no endpoints available for service "{name}"')


def _ready_address(endpoints: Manifest, port_name: str) -> Address | None:
    ports = {found.get("name") or "": found.get("port") for found in endpoints.get("ports") or ()}
    port = ports.get(port_name)
    if port is None:
        return None
    for endpoint in endpoints.get("endpoints") or ():
        ready = (endpoint.get("conditions") or {}).get("ready")
        for host in endpoint.get("addresses") or ():
            if ready is not False:
                return host, port
    return None
