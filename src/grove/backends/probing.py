"""How a backend asks which fields the API server keeps of its scheduler's objects. Pure."""

from grove.backends.base import Probe
from grove.meta import Manifest, Resource


def probe_fields(resource: Resource, spec: Manifest, *paths: str) -> Probe:
    """A dry run of an object with this spec, which shows whether the fields at these paths are kept."""
    manifest: Manifest = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "grove-probe", "namespace": "default"},
        "spec": spec,
    }
    return Probe(resource, manifest, paths)
