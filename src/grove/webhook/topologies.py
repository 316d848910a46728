"""Answers about ClusterTopologyBindings."""

from grove.admission import validate_topology_binding
from grove.admission.bindings import unusable_references
from grove.api.constraints import domains, topology_name
from grove.api.decode import decode
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import TopologyAware
from grove.errors import FieldError, InvalidInput
from grove.webhook.review import ALLOWED, CREATE, UPDATE, Answer, Request
from grove.webhook.surroundings import Surroundings


class TopologyReviews:
    """Says whether a binding may be stored."""

    def __init__(self, known: Surroundings) -> None:
        self._known = known

    async def validate(self, request: Request) -> Answer:
        """Whether the binding makes sense; what was wrong before may stay so when something else changes."""
        if request.object is None or request.operation not in (CREATE, UPDATE):
            return ALLOWED
        try:
            binding = decode(request.object, ClusterTopologyBinding)
        except InvalidInput as error:
            return Answer(error.errors)
        old = _decoded(request)
        if binding.terminating or (old is not None and old.spec == binding.spec):
            return ALLOWED
        return Answer(tuple(self._errors(binding)), tuple(self._in_use(old, binding)))

    def _errors(self, binding: ClusterTopologyBinding) -> list[FieldError]:
        reads_topology = {
            name: isinstance(backend, TopologyAware)
            for backend in self._known.schedulers.registry.enabled
            for name in (backend.name, backend.scheduler_name)
        }
        return [*validate_topology_binding(binding), *unusable_references(binding, reads_topology)]

    def _in_use(self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding) -> list[str]:
        """Sets that ask for a level which would be gone."""
        kept = {level.domain for level in new.spec.levels}
        gone = {level.domain for level in old.spec.levels} - kept if old is not None else set()
        if not gone:
            return []
        return [
            f"PodCliqueSet {each.key} asks for level {domain!r}, which would be gone"
            for each in self._known.cliquesets()
            if topology_name(each) == new.name
            for domain in domains(each)
            if domain in gone
        ]


def _decoded(request: Request) -> ClusterTopologyBinding | None:
    if request.operation == CREATE or request.old_object is None:
        return None
    try:
        return decode(request.old_object, ClusterTopologyBinding)
    except InvalidInput:
        return None
