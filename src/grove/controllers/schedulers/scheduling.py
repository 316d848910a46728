"""What the controllers know about schedulers: the enabled backends, what the cluster offers, what exists.

Discovery and probing happen here, at start, when a definition changes and from time to time: an API or a CRD
that appears later is picked up without a restart. Scheduler objects are cached by owner, so that a gang finds
its own at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from grove.api import kinds, labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.backends.base import (
    Backend,
    Cluster,
    Context,
    EventSource,
    ObservedResource,
    Probe,
    Remark,
    TopologyAware,
    Traits,
    traits_of,
)
from grove.backends.registry import Registry, Selection
from grove.controllers.schedulers.observation import Observation
from grove.controllers.schedulers.remarks import Remarks
from grove.errors import ApiError, BadRequest, Forbidden, Invalid, InvalidConfiguration, NotFound
from grove.kube.client import Client
from grove.meta import Key, Manifest, Object, Resource, UntypedObject, manifest_key, resource
from grove.runtime.cache import Cache
from grove.runtime.metrics import Metrics

log = logging.getLogger(__name__)

OWNER = "owner"
REDISCOVER_SECONDS = 30.0
#: A new definition is served a moment after it is stored; on a busy API server, some moments.
SERVED_AFTER_SECONDS = (0.3, 0.7, 1.0, 3.0)
#: How long newly watched kinds are waited for; one that we may not read must not hold up the others.
SYNC_SECONDS = 10.0
CRDS = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
_PROBE_NAMESPACE = "default"

Listener = Callable[[Resource, UntypedObject | None, UntypedObject | None], None]


def has_own_definition(each: Resource) -> bool:
    """Whether a kind is the scheduler's own, so that its definition tells which fields it has."""
    return "." in each.gvk.group and not each.gvk.group.endswith(".k8s.io")


class Scheduling:
    """The enabled backends against one cluster."""

    def __init__(
        self,
        registry: Registry,
        client: Client,
        cache: Cache,
        metrics: Metrics,
        observation: Observation,
        remarks: Remarks,
        *,
        configs: Mapping[str, Mapping[str, Any]] | None = None,
        external: frozenset[str] = frozenset(),
        only: str = "",
    ) -> None:
        self.registry = registry
        #: The backend whose gangs alone concern this process; blank for the operator.
        self.only = only
        #: The backends that have a process of their own, as the configuration says.
        self.external = external
        self.observation = observation
        self.remarks = remarks
        observation.concluding(self._preconditions)
        self._configs = configs or {}
        self.cluster = Cluster()
        #: Called with every change of a scheduler's object.
        self.listeners: list[Listener] = []
        #: Called when the cluster serves something else than before.
        self.changed: list[Callable[[], None]] = []
        self._client = client
        self._cache = cache
        self._known: set[Resource] = set()
        #: A probe was not allowed: what it asked about is unknown, and asked again.
        self.unsure = False
        self._stirred = asyncio.Event()
        #: The backends are others than those for which the cluster was last looked at.
        self._reconfigured = False
        #: Kinds of backends that were enabled once: what they made may still have to go.
        self._former: set[Resource] = set()
        self._selections: dict[str, tuple[object, Selection]] = {}
        #: What each backend said about itself, and from what it said so.
        self._traits: dict[str, tuple[Context, Traits]] = {}
        self._counter = metrics.counter("grove_backend_selections_total")

    # Selection ------------------------------------------------------------------------------------

    def select(self, cliqueset: PodCliqueSet) -> Selection:
        """The backend of a set; remembered until the set changes, counted when it is decided."""
        chosen = cliqueset.annotations.get(labels.SCHEDULER_BACKEND)
        version = (cliqueset.metadata.generation, chosen)
        known = self._selections.get(cliqueset.uid)
        if known is not None and known[0] == version:
            return known[1]
        selection = self.registry.select(cliqueset)
        there = self._cache.store(PodCliqueSet).get(cliqueset.key)
        if there is not None and there.uid == cliqueset.uid:
            # Of one that is gone meanwhile nobody would tell us to forget it again.
            self._selections[cliqueset.uid] = (version, selection)
        name = selection.backend.name if selection.backend is not None else "none"
        self._counter.labels(name, selection.source).inc()
        return selection

    def forget(self, uid: str) -> None:
        """A set is gone."""
        self._selections.pop(uid, None)

    def backend_of(self, gang: PodGang) -> Backend | None:
        """The backend that acts on a gang: the one its label names, if it is enabled."""
        return self.registry.get(gang.labels.get(labels.SCHEDULER_BACKEND, ""))

    def acts_on(self, gang: PodGang) -> bool:
        """Whether this process writes the gang's scheduler objects, references and status.

        The gang itself says so, and only the operator writes that: whatever the processes believe about the
        configuration, there is one writer.
        """
        outside = labels.EXTERNAL_BACKEND in gang.annotations
        if self.only:
            return outside and gang.labels.get(labels.SCHEDULER_BACKEND) == self.only
        return not outside

    async def reconfigure(
        self, registry: Registry, configs: Mapping[str, Mapping[str, Any]], external: frozenset[str]
    ) -> None:
        """From now on these backends are enabled; gangs of others stay as they are and say so.

        Raises InvalidConfiguration, and changes nothing, if a backend refuses its configuration.
        """
        for backend in registry.enabled:
            _refuse_invalid(backend, Context(self.cluster, configs.get(backend.name, {})))
        self.registry, self._configs, self.external = registry, configs, external
        self._selections.clear()
        self._traits.clear()
        self._reconfigured = True
        await self._look_again()

    def context(
        self,
        backend: Backend | None,
        cliqueset: PodCliqueSet | None = None,
        *,
        released: bool = False,
        revision: str = "",
        bound: Mapping[str, int] | None = None,
        remarks: Mapping[str, Remark] | None = None,
        ungrouped: Mapping[str, int] | None = None,
    ) -> Context:
        """What a backend may know besides the gang."""
        if backend is None:
            return Context(self.cluster, cliqueset=cliqueset, revision=revision, bound=bound or {})
        config, observed = self._configs.get(backend.name, {}), self.observation.of(backend.name)
        return Context(
            self.cluster,
            config,
            cliqueset,
            observed,
            released,
            revision,
            bound or {},
            remarks,
            ungrouped or {},
        )

    def traits(self, backend: Backend | None) -> Traits:
        """What is particular about a backend here; remembered, as it is asked with every look at a set."""
        if backend is None:
            return Traits()
        context = Context(self.cluster, self._configs.get(backend.name, {}))
        known = self._traits.get(backend.name)
        if known is None or known[0] != context:
            known = self._traits[backend.name] = (context, traits_of(backend, context))
        return known[1]

    def _preconditions(self, name: str) -> object:
        backend = self.registry.get(name)
        return tuple(backend.preconditions(self.context(backend))) if backend is not None else ()

    # Objects --------------------------------------------------------------------------------------

    def objects_of(self, gang: PodGang) -> list[UntypedObject]:
        """The scheduler objects that a gang owns, of every backend: stale ones are found like this too."""
        found: list[UntypedObject] = []
        for each in sorted(self._known):
            informer = self._cache.informer(each)
            if informer is not None:
                found += [
                    item for item in informer.store.index(OWNER, gang.uid) if isinstance(item, UntypedObject)
                ]
        return found

    def object(self, manifest: Manifest) -> UntypedObject | None:
        """The existing counterpart of a translated object."""
        informer = self._cache.informer(self.resource_of(manifest))
        item = informer.store.get(manifest_key(manifest)) if informer is not None else None
        return item if isinstance(item, UntypedObject) else None

    def resource_of(self, manifest: Manifest) -> Resource:
        """The resource that serves a translated object."""
        for each in self._known:
            if each.api_version == manifest["apiVersion"] and each.kind == manifest["kind"]:
                return each
        group, _, version = str(manifest["apiVersion"]).rpartition("/")
        return resource(group, version, str(manifest["kind"]))

    # Discovery ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look again whether the cluster serves something else now: when told so, and from time to time."""
        while True:
            try:
                await asyncio.wait_for(self._stirred.wait(), REDISCOVER_SECONDS)
            except TimeoutError:
                await self._look_again()
                continue
            for pause in SERVED_AFTER_SECONDS:
                await asyncio.sleep(pause)
                self._stirred.clear()
                if await self._look_again():
                    break

    def stir(self) -> None:
        """A definition was installed, changed or removed: what the cluster serves is about to change."""
        self._stirred.set()

    async def _look_again(self) -> bool:
        try:
            changed = await self.discover()
            if changed and self._reconfigured:
                # What a backend made before it was disabled is not missing, only not listed yet.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._cache.wait_synced(), SYNC_SECONDS)
        except ApiError as error:
            log.info("discovery failed, trying again later", extra={"error": str(error)})
            return False
        if changed:
            self._reconfigured = False
            for announce in self.changed:
                announce()
        return changed

    async def discover(self) -> bool:
        """Ask what the cluster serves and watch the backends' objects; True when something changed."""
        discovery = await self._client.discover()
        version = await self._client.version()
        served = {group: frozenset(plurals) for group, plurals in discovery.served.items()}
        same = served == self.cluster.served and version.git_version == self.cluster.version
        if same and not self.unsure and not self._reconfigured:
            return False
        self.unsure = False
        bare = Cluster(served, frozenset(), version.git_version)
        fields: set[str] = set()
        for backend in self.registry.enabled:
            fields |= await self._probe(backend, bare)
        # In one step: whoever looks meanwhile must not take a field that is not probed yet for missing.
        before, self.cluster = self.cluster, Cluster(served, frozenset(fields), version.git_version)
        if self.cluster == before and not self._reconfigured:
            return False
        self._watch_objects()
        log.info(
            "cluster discovered",
            extra={
                "version": self.cluster.version,
                "backends": [backend.name for backend in self.registry.enabled],
                "watching": [str(each) for each in sorted(self._known)],
            },
        )
        return True

    async def _probe(self, backend: Backend, cluster: Cluster) -> set[str]:
        """Which optional fields the server keeps, by dry run; and which fields the CRDs declare."""
        context = Context(cluster, self._configs.get(backend.name, {}))
        facts: set[str] = set()
        for probe in traits_of(backend, context).probes:
            facts |= probe.facts(await self._dry_run(probe))
        for each in backend.resources(context):
            if has_own_definition(each):
                facts |= await self._declared_fields(each)
        return facts

    async def _dry_run(self, probe: Probe) -> Manifest | None:
        manifest = {**probe.manifest}
        manifest["metadata"] = {"namespace": _PROBE_NAMESPACE, **manifest.get("metadata", {})}
        try:
            return await self._client.create(probe.resource, manifest, type=dict, dry_run=True, strict=True)
        except Forbidden as refusal:
            # We may not ask, or the API server has just started and does not know the roles yet.
            self.unsure = True
            log.warning(
                "cannot probe the fields of the scheduler's objects, trying again later",
                extra={"resource": str(probe.resource), "error": str(refusal)},
            )
            return None
        except (BadRequest, Invalid, NotFound) as refusal:
            # Only a considered "no" counts: an outage must not pass for a missing feature.
            log.debug("probe refused", extra={"resource": str(probe.resource), "error": str(refusal)})
            return None

    async def _declared_fields(self, each: Resource) -> set[str]:
        """The dotted field paths of a CRD's schema; empty when we may not read CRDs."""
        try:
            crd = await self._client.get(CRDS, Key("", str(each)), type=dict)
        except (Forbidden, NotFound):
            return set()
        versions = (crd.get("spec") or {}).get("versions") or ()
        schemas = [item.get("schema", {}) for item in versions if item.get("name") == each.gvk.version]
        paths: set[str] = set()
        for schema in schemas:
            _collect(schema.get("openAPIV3Schema") or {}, "", paths)
        return {f"{each}:{path}" for path in paths}

    def _watch_objects(self) -> None:
        wanted: dict[Resource, None] = {}
        for backend in self.registry.enabled:
            context = self.context(backend)
            wanted.update(dict.fromkeys(each for each in backend.resources(context) if self._served(each)))
            if isinstance(backend, TopologyAware) and self._served(backend.topology_resource):
                wanted[backend.topology_resource] = None
        wanted.update(dict.fromkeys(self._left_over(wanted)))
        for gone in self._known - wanted.keys():
            self._cache.remove(gone)
        for new in wanted:
            if new not in self._known:
                self._watch(new)
        self._known = set(wanted)
        self.observation.want({each.name: self.observed_by(each) for each in self.registry.enabled})
        self.remarks.want(self.event_sources())

    def _left_over(self, wanted: Iterable[Resource]) -> set[Resource]:
        """Kinds of backends that were disabled while we ran; never another version of a kind in use."""
        if self._reconfigured:
            self._former |= self._known
        used = {str(each) for each in wanted}
        self._former = {each for each in self._former if self._served(each) and str(each) not in used}
        return self._former

    def observed_by(self, backend: Backend) -> list[ObservedResource]:
        """The objects of others that a backend depends on and that the cluster serves."""
        return [each for each in self.traits(backend).observes if self._served(each.resource)]

    def event_sources(self) -> dict[str, EventSource]:
        """The events that are read, by backend; verdicts on gangs of another process are read there."""
        return {
            each.name: source
            for each in self.registry.enabled
            if (source := self.traits(each).events) is not None
            and (each.name == self.only if self.only else each.name not in self.external)
        }

    def _served(self, each: Resource) -> bool:
        return self.cluster.serves(each)

    def _watch(self, each: Resource) -> None:
        # A topology object may be managed by somebody else; whatever else concerns us is labelled ours.
        selection = labels.OURS if each.namespaced else ""
        informer = self._cache.add(each, UntypedObject, labels=selection, indexes={OWNER: owner_uids})

        def tell(old: UntypedObject | None, new: UntypedObject | None) -> None:
            for listener in self.listeners:
                listener(each, old, new)

        informer.subscribe(tell)


def owner_uids(item: Object) -> Iterable[str]:
    """The index by controlling owner."""
    owner = item.owner
    return (owner.uid,) if owner is not None else ()


def gang_key(item: Object) -> Key | None:
    """The gang that owns a scheduler object."""
    owner = item.owner
    if owner is None or owner.kind != kinds.GANGS.kind:
        return None
    return Key(item.namespace, owner.name)


def _collect(schema: Manifest, prefix: str, paths: set[str]) -> None:
    for name, field in (schema.get("properties") or {}).items():
        path = f"{prefix}.{name}" if prefix else name
        paths.add(path)
        _collect(field, path, paths)
        items = field.get("items")
        if isinstance(items, dict):
            _collect(items, path, paths)


def _refuse_invalid(backend: Backend, context: Context) -> None:
    """Let the backend look at its configuration; what else it may stumble over is told by the gangs."""
    try:
        traits_of(backend, context)
        backend.preconditions(context)
    except InvalidConfiguration:
        raise
    except Exception:
        log.exception("scheduler backend failed", extra={"backend": backend.name})
