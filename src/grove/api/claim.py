"""The parts of ResourceClaims, their templates and ComputeDomains that Grove reads."""

import msgspec

from grove.meta import Manifest, Object, View


class ResourceClaim(Object):
    """A claim for devices; its spec never changes."""

    spec: Manifest = msgspec.field(default_factory=dict)


class ResourceClaimTemplateSpec(View):
    spec: Manifest = msgspec.field(default_factory=dict)


class ResourceClaimTemplate(Object):
    """What claims for devices are made from."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class ComputeDomain(Object):
    """NVIDIA's kind for nodes whose GPUs reach one another by NVLink; its spec never changes."""

    spec: Manifest = msgspec.field(default_factory=dict)
