"""Options: what a backend may offer besides must not backfire: held-back pods, a topology object."""

import msgspec

from grove.api.gang import PodGang
from grove.api.kinds import TOPOLOGY_BINDINGS
from grove.backends.base import Context, HoldingBack, Observing, TopologyAware
from grove.meta import Manifest
from grove.testing import make
from grove.testing.rules.subject import Subject, needed


class OptionRules(Subject):
    """What must hold for the optional protocols, where a backend has them."""

    def test_no_pod_that_the_gang_needs_is_held_back(self) -> None:
        backend = self.backend
        if not isinstance(backend, HoldingBack):
            return
        for _, gang, _ in self.translated():
            for clique, index in needed(gang):
                held = backend.holds_back(make.pod(clique, index, gang=gang), gang)
                assert not held, f"gang {gang.name} waits for {clique}-{index}, which is held back: forever"

    def test_nothing_is_held_back_once_the_gang_is_placed(self) -> None:
        backend = self.backend
        if not isinstance(backend, HoldingBack):
            return
        for _, gang, _ in self.translated():
            placed = _placed(gang)
            for podgroup in gang.spec.podgroups:
                spare = make.pod(podgroup.name, podgroup.min_replicas + 1, gang=gang)
                assert not backend.holds_back(spare, placed), f"gang {gang.name}: a spare pod never starts"

    def test_what_it_looks_at_is_known_on_any_cluster(self) -> None:
        if isinstance(self.backend, Observing):
            for context in (Context(), *self.contexts()):
                for each in self.backend.observes(context):
                    assert each.resource.plural, "a kind that is looked at has no name"

    def test_its_topology_object_says_what_the_binding_says_and_goes_with_it(self) -> None:
        if not isinstance(self.backend, TopologyAware):
            return
        binding = make.topology_binding()
        manifest = self.backend.desired_topology(binding)
        wanted = tuple(level.key for level in binding.spec.levels)
        assert self.backend.levels_of(manifest) == wanted, "levels are lost on the way"
        owners = [(each["kind"], each["uid"]) for each in manifest["metadata"]["ownerReferences"]]
        assert owners == [(TOPOLOGY_BINDINGS.kind, binding.uid)], "it outlives its binding"
        assert manifest["metadata"]["name"] == binding.name
        strange_ones: tuple[Manifest, ...] = ({"spec": None}, {"spec": {}}, {"spec": {"levels": [None, 3]}})
        for strange in strange_ones:
            assert self.backend.levels_of({**manifest, **strange}) != wanted, "levels out of nowhere"


def _placed(gang: PodGang) -> PodGang:
    """The same gang, with the word that it is scheduled."""
    said = {"type": "Scheduled", "status": "True", "reason": "Scheduled", "message": ""}
    status = {"phase": "Running", "conditions": [said]}
    return make.view(PodGang, {**msgspec.to_builtins(gang), "status": status})
