"""Options: what a backend may offer besides must not backfire: its traits, its lifecycle, its topology."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grove.api.kinds import TOPOLOGY_BINDINGS
from grove.api.pod import Pod
from grove.backends.base import (
    Capability,
    Context,
    GangSnapshot,
    TopologyAware,
    Traits,
    WithLifecycle,
    lifecycle_of,
    object_name,
    traits_of,
)
from grove.meta import Manifest
from grove.testing import make
from grove.testing.rules.subject import SAMPLES, Subject
from grove.testing.virtual_time import EPOCH


class ReadKeys(dict[str, Any]):
    """A profile's `config` that notes which of its keys were asked for."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)


class OptionRules(Subject):
    """What must hold for what a backend may say besides the required methods."""

    def test_its_traits_are_known_on_any_cluster(self) -> None:
        for context in (Context(), *self.contexts()):
            traits = traits_of(self.backend, context)
            assert isinstance(traits, Traits), f"traits must be Traits, not {type(traits).__name__}"
            assert traits == traits_of(self.backend, context), "it says something else when asked again"
            kinds = {*(each.resource for each in traits.probes), *(each.resource for each in traits.observes)}
            assert all(each.plural for each in kinds), "a kind that is probed or observed has no name"

    def test_the_events_that_it_wants_read_are_those_of_one_component(self) -> None:
        for context in (Context(), *self.contexts()):
            source = traits_of(self.backend, context).events
            if source is None:
                continue
            assert source.component, "events of every component would be watched"
            for text in (source.component, source.reason):
                assert not set(text) & set(",=\\ "), f"{text!r} is no value of a field selector"

    def test_it_reads_only_the_keys_of_its_config_that_it_names(self) -> None:
        named = traits_of(self.backend, Context()).config_keys
        if named is None:
            return
        for context in self.contexts():
            assert traits_of(self.backend, context).config_keys == named, "the keys depend on the cluster"
            config = ReadKeys(context.config)
            self._ask_everything(replace(context, config=config))
            unnamed = sorted(config.read - named)
            assert not unnamed, f"reads {', '.join(unnamed)}, of which users are told that it is ignored"

    def _ask_everything(self, context: Context) -> None:
        """Use the backend once from the configuration to the verdict."""
        backend, gang = self.backend, SAMPLES[Capability.GANG]
        traits_of(backend, context)
        for ask in (backend.capabilities, backend.resources, backend.preconditions):
            ask(context)
        backend.validate(make.cliqueset(), context)
        objects = backend.translate(gang, context).manifests
        pods = [make.pod_manifest(each.name, 0, gang=gang) for each in gang.spec.podgroups]
        prepared = [make.view(Pod, backend.prepare_pod(each, gang, context)) for each in pods]
        backend.read(gang, objects, prepared, context)
        lifecycle_of(backend, GangSnapshot(gang, prepared, context, EPOCH, translated=objects))

    def test_its_lifecycle_concerns_only_what_it_was_given(self) -> None:
        if not isinstance(self.backend, WithLifecycle):
            return
        for context, gang, translation in self.translated():
            pods = [make.pod(group.name, 0, gang=gang) for group in gang.spec.podgroups]
            snapshot = GangSnapshot(gang, pods, context, EPOCH, translated=translation.manifests)
            said = self.backend.lifecycle(snapshot)
            assert said == self.backend.lifecycle(snapshot), "it says something else when asked again"
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
