"""Options: what a backend may offer besides must not backfire: what it looks at or reads, its topology."""

from grove.api.kinds import TOPOLOGY_BINDINGS
from grove.backends.base import (
    Context,
    Living,
    Moment,
    Observing,
    TellingByEvents,
    TopologyAware,
    object_name,
)
from grove.meta import Manifest
from grove.testing import make
from grove.testing.rules.subject import Subject
from grove.testing.virtual_time import EPOCH


class OptionRules(Subject):
    """What must hold for the optional protocols, where a backend has them."""

    def test_what_it_looks_at_is_known_on_any_cluster(self) -> None:
        if isinstance(self.backend, Observing):
            for context in (Context(), *self.contexts()):
                for each in self.backend.observes(context):
                    assert each.resource.plural, "a kind that is looked at has no name"

    def test_the_events_that_it_wants_read_are_those_of_one_component(self) -> None:
        if isinstance(self.backend, TellingByEvents):
            source = self.backend.events_from
            assert source.component, "events of every component would be watched"
            for text in (source.component, source.reason):
                assert not set(text) & set(",=\\ "), f"{text!r} is no value of a field selector"

    def test_its_lifecycle_concerns_only_what_it_was_given(self) -> None:
        if not isinstance(self.backend, Living):
            return
        for context, gang, translation in self.translated():
            pods = [make.pod(group.name, 0, gang=gang) for group in gang.spec.podgroups]
            moment = Moment(gang, pods, context, EPOCH, translated=translation.manifests)
            said = self.backend.lifecycle(moment)
            assert said == self.backend.lifecycle(moment), "it says something else when asked again"
            objects = {object_name(each) for each in translation.manifests}
            assert said.fixed.keys() | said.recreated.keys() <= objects, "it names an object of nobody"
            names = {pod.name for pod in pods}
            changed = {pod.name for pod in (*(each for each, _ in said.touch), *said.replace)}
            assert said.keep | said.on_opening.keys() | changed <= names, "it names a pod of nobody"
            assert not changed, "nothing was recreated, and pods are touched or replaced"

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
