"""The part of a service that Grove reads: what it wrote there itself."""

import msgspec

from grove.meta import Object, View


class ServiceSpec(View):
    #: Spelled as Kubernetes spells it; `camel` would say `clusterIp`.
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    publish_not_ready_addresses: bool = False


class Service(Object):
    """A headless service of one replica."""

    spec: ServiceSpec = ServiceSpec()
