"""The event graph, as a table: which change of which object wakes which reconciler, and how it is found.

Two tables hold it, `TABLE` and `STATUSES`; `children` adds a row for each kind of children, and `connect`
what comes through `Scheduling`: scheduler objects, discovery, and objects of others that backends observe.

Wake-ups may be too many, never too few; they carry a key and nothing else, and mapping has no side effects.
What comes in floods (pods of one gang, children of one set) is gathered for a moment that grows with its
size, so that a gang of a thousand pods is looked at tens of times and not a thousand.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from grove.api import conditions, kinds, labels, names
from grove.api.claim import ResourceClaim
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import topology_name
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.api.topology import ClusterTopologyBinding
from grove.controllers.devices import Devices
from grove.controllers.differences import (
    child_changed,
    clique_demand_changed,
    desired_state_changed,
    errors_changed,
    gang_changed,
    gang_listed,
    gang_revision_changed,
    group_turn_changed,
    initialized_by_backend_process,
    is_initialized,
    is_true,
    only_comes_or_goes,
    owner_changed,
    pod_lost,
    pod_needs_action,
    pod_placed,
    scheduler_choice_changed,
    status_changed,
    strategy_changed,
    turns,
    turns_changed,
)
from grove.controllers.members import CLIQUES_BY_OWNER, GANGS_BY_BASE, LIVING_PODS_BY_GANG
from grove.controllers.memory.own_writes import OwnWrites
from grove.controllers.pacing import DEBOUNCE_SECONDS, debounce_children, debounce_pods, debounce_status
from grove.controllers.schedulers.scheduling import Scheduling, gang_key
from grove.meta import Key, Object, Resource, UntypedObject
from grove.plan.children import registry
from grove.plan.children.registry import Kind
from grove.plan.startup import uses_account_of_set
from grove.runtime.cache import Cache
from grove.runtime.store import Store

CLIQUESET = "cliqueset"
SCALING_GROUP = "scaling group"
CLIQUE = "clique"
GANG = "gang"
TOPOLOGY = "topology"
_CLIQUE_KIND = kinds.CLIQUES.kind

Keys = Callable[[Any, Cache], Iterable[Key]]
Changed = Callable[[Any, Any], bool]
Debounce = Callable[[Key, Cache], float]


class Enqueues(Protocol):
    """A controller, as far as wake-ups are concerned."""

    def enqueue(self, key: Key) -> None: ...
    def enqueue_after(self, key: Key, seconds: float) -> None: ...


def immediately(key: Key, cache: Cache) -> float:
    return 0.0


def debounced(key: Key, cache: Cache) -> float:
    return DEBOUNCE_SECONDS


def debounced_by_pods(key: Key, cache: Cache) -> float:
    """Longer for a gang or clique with many pods."""
    pods = cache.store(Pod)
    return debounce_pods(_pods_of(key, pods), len(pods))


def as_soon_as_all_exist(key: Key, cache: Cache) -> float:
    """At once for the last pod that a gang waits for; the others are gathered."""
    gang = cache.store(PodGang).get(key)
    if gang is None or is_initialized(gang) or not _all_exist(gang, cache):
        return debounced_by_pods(key, cache)
    return 0.0


def debounced_for_status(key: Key, cache: Cache) -> float:
    """What goes into statuses only may be gathered for about as long as those are held back."""
    pods = cache.store(Pod)
    return debounce_status(_pods_of(key, pods), len(pods))


def debounced_unless_pods_wait(key: Key, cache: Cache) -> float:
    """As `debounced_for_status`, unless pods above the minimum wait for the gang to be placed."""
    gang = cache.store(PodGang).get(key)
    if gang is None or is_true(gang, conditions.SCHEDULED):
        return debounced_for_status(key, cache)
    more = any(len(group.pod_references) > group.min_replicas for group in gang.spec.podgroups)
    return debounced_by_pods(key, cache) if more else debounced_for_status(key, cache)


def debounced_by_children(key: Key, cache: Cache) -> float:
    """Longer for a set with many gangs."""
    return debounce_children(cache.store(PodGang).count("set", str(key)))


def _pods_of(key: Key, pods: Store[Pod]) -> int:
    """How many pods a gang or clique has; one of the two indexes knows the key."""
    text = str(key)
    return max(pods.count("gang", text), pods.count("clique", text))


# Who is concerned ---------------------------------------------------------------------------------


def itself(item: Object, cache: Cache) -> Iterator[Key]:
    yield item.key


def its_set(item: Object, cache: Cache) -> Iterator[Key]:
    metadata = item.metadata
    if name := metadata.labels.get(labels.PART_OF):
        yield Key(metadata.namespace, name)


def its_clique(item: Object, cache: Cache) -> Iterator[Key]:
    """The clique that owns a pod, and the one that its label names."""
    metadata, owner = item.metadata, item.owner
    name = metadata.labels.get(labels.POD_CLIQUE)
    if owner is not None and owner.kind == _CLIQUE_KIND:
        yield Key(metadata.namespace, owner.name)
    if name and (owner is None or owner.name != name):
        yield Key(metadata.namespace, name)


def its_gang(item: Object, cache: Cache) -> Iterator[Key]:
    """The gang that a label names; of a pod also the gang of its clique, whatever the label says."""
    metadata, owner = item.metadata, item.owner
    name = metadata.labels.get(labels.POD_GANG)
    if name:
        yield Key(metadata.namespace, name)
    if owner is None or owner.kind != _CLIQUE_KIND:
        return
    clique = cache.store(PodClique).get(Key(metadata.namespace, owner.name))
    other = clique.labels.get(labels.POD_GANG) if clique is not None else None
    if other and other != name:
        yield Key(metadata.namespace, other)


def gangs_after_its_gang(pod: Pod, cache: Cache) -> Iterator[Key]:
    """The scaled gangs that wait until the gang of a pod is placed."""
    name = pod.labels.get(labels.POD_GANG)
    return scaled_gangs(Key(pod.namespace, name), cache) if name else iter(())


def gangs_after_it(gang: PodGang, cache: Cache) -> Iterator[Key]:
    return scaled_gangs(gang.key, cache)


def scaled_gangs(base: Key, cache: Cache) -> Iterator[Key]:
    for gang in cache.store(PodGang).index(GANGS_BY_BASE, str(base)):
        if not is_true(gang, conditions.READY) or _has_closed_gates(gang, cache):
            yield gang.key


def _has_closed_gates(gang: PodGang, cache: Cache) -> bool:
    """Whether a pod of the gang waits behind its gate: one that runs may have lost a pod with its base."""
    pods = cache.store(Pod).index(LIVING_PODS_BY_GANG, str(gang.key))
    return any(pod.spec.scheduling_gates for pod in pods)


def its_group(clique: PodClique, cache: Cache) -> Iterator[Key]:
    if name := clique.labels.get(labels.SCALING_GROUP):
        yield Key(clique.namespace, name)


def groups_of(cliqueset: PodCliqueSet, cache: Cache) -> Iterator[Key]:
    for group in cache.store(PodCliqueScalingGroup).index("set", str(cliqueset.key)):
        yield group.key


def cliques_of_group(group: PodCliqueScalingGroup, cache: Cache) -> Iterator[Key]:
    for clique in cache.store(PodClique).index(CLIQUES_BY_OWNER, group.uid):
        yield clique.key


def gangs_of_group(group: PodCliqueScalingGroup, cache: Cache) -> Iterator[Key]:
    for clique in cache.store(PodClique).index(CLIQUES_BY_OWNER, group.uid):
        yield from its_gang(clique, cache)


def its_cliques(gang: PodGang, cache: Cache) -> Iterator[Key]:
    for group in gang.spec.podgroups:
        yield Key(gang.namespace, group.name)


def its_gangs(cliqueset: PodCliqueSet, cache: Cache) -> Iterator[Key]:
    for gang in cache.store(PodGang).index("set", str(cliqueset.key)):
        yield gang.key


def cliques_of(cliqueset: PodCliqueSet, cache: Cache) -> Iterator[Key]:
    for clique in cache.store(PodClique).index("set", str(cliqueset.key)):
        yield clique.key


def cliques_with_a_turn(cliqueset: PodCliqueSet, cache: Cache) -> Iterator[Key]:
    """The cliques of the replicas that an update is at work on."""
    updating = turns(cliqueset)
    for clique in cache.store(PodClique).index("set", str(cliqueset.key)):
        if names.set_replica(cliqueset.name, clique.name) in updating:
            yield clique.key


def groups_with_a_turn(cliqueset: PodCliqueSet, cache: Cache) -> Iterator[Key]:
    """The scaling groups of the replicas that an update is at work on."""
    updating = turns(cliqueset)
    for group in cache.store(PodCliqueScalingGroup).index("set", str(cliqueset.key)):
        if names.set_replica(cliqueset.name, group.name) in updating:
            yield group.key


def sets_that_name_it(binding: ClusterTopologyBinding, cache: Cache) -> Iterator[Key]:
    for cliqueset in cache.store(PodCliqueSet):
        if topology_name(cliqueset) == binding.name:
            yield cliqueset.key


def set_of_which_it_uses(pod: Pod, cache: Cache) -> Iterator[Key]:
    """The set whose claims or account a pod uses: what is wanted no more goes when no pod uses it."""
    return its_set(pod, cache) if pod.spec.resource_claims or uses_account_of_set(pod) else iter(())


def _all_exist(gang: PodGang, cache: Cache) -> bool:
    cliques = [cache.store(PodClique).get(clique) for clique in its_cliques(gang, cache)]
    wanted = sum(clique.spec.replicas for clique in cliques if clique is not None)
    return cache.store(Pod).count(LIVING_PODS_BY_GANG, str(gang.key)) >= wanted


@dataclass(frozen=True, slots=True)
class Wakeup:
    """When an object of `type` comes, goes or changes like this, wake these keys of that controller."""

    resource: Resource
    type: type[Object]
    changed: Changed
    controller: str
    keys: Keys
    debounce: Debounce = immediately
    #: Whether also when one comes.
    comes: bool = True
    #: For one that comes or changes otherwise, with more patience; None where nobody is waked by that.
    otherwise: Debounce | None = None


TABLE: tuple[Wakeup, ...] = (
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, desired_state_changed, CLIQUESET, itself),
    Wakeup(
        kinds.TOPOLOGY_BINDINGS, ClusterTopologyBinding, desired_state_changed, CLIQUESET, sets_that_name_it
    ),
    Wakeup(kinds.CLIQUES, PodClique, desired_state_changed, CLIQUE, itself),
    Wakeup(kinds.GANGS, PodGang, gang_revision_changed, CLIQUE, its_cliques),
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, scheduler_choice_changed, GANG, its_gangs),
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, scheduler_choice_changed, CLIQUE, cliques_of),
    # One for which another need not be made only goes into the clique's status.
    Wakeup(
        kinds.PODS,
        Pod,
        pod_lost,
        CLIQUE,
        its_clique,
        debounced_by_pods,
        comes=False,
        otherwise=debounced_for_status,
    ),
    Wakeup(kinds.GANGS, PodGang, gang_changed, GANG, itself),
    Wakeup(kinds.GANGS, PodGang, gang_listed, GANG, itself, debounced_by_pods),
    Wakeup(kinds.GANGS, PodGang, initialized_by_backend_process, GANG, itself),
    Wakeup(kinds.CLIQUES, PodClique, clique_demand_changed, GANG, its_gang),
    # One that got further and nothing else only goes into statuses, which are held back anyway.
    Wakeup(
        kinds.PODS,
        Pod,
        pod_needs_action,
        GANG,
        its_gang,
        as_soon_as_all_exist,
        otherwise=debounced_unless_pods_wait,
    ),
    Wakeup(kinds.PODS, Pod, pod_placed, GANG, gangs_after_its_gang, debounced_by_pods),
    Wakeup(kinds.GANGS, PodGang, desired_state_changed, GANG, gangs_after_it),
    Wakeup(kinds.SCALING_GROUPS, PodCliqueScalingGroup, desired_state_changed, SCALING_GROUP, itself),
    Wakeup(kinds.CLIQUES, PodClique, child_changed, SCALING_GROUP, its_group, debounced),
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, errors_changed, SCALING_GROUP, groups_of, debounced),
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, turns_changed, CLIQUE, cliques_with_a_turn),
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, turns_changed, SCALING_GROUP, groups_with_a_turn),
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, strategy_changed, CLIQUE, cliques_of),
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, strategy_changed, SCALING_GROUP, groups_of),
    Wakeup(kinds.SCALING_GROUPS, PodCliqueScalingGroup, group_turn_changed, CLIQUE, cliques_of_group),
    # A clique belongs to a set through its group: who sees the clique first waits for the group.
    Wakeup(kinds.SCALING_GROUPS, PodCliqueScalingGroup, owner_changed, CLIQUE, cliques_of_group),
    Wakeup(kinds.SCALING_GROUPS, PodCliqueScalingGroup, owner_changed, GANG, gangs_of_group),
    Wakeup(kinds.TOPOLOGY_BINDINGS, ClusterTopologyBinding, desired_state_changed, TOPOLOGY, itself),
    Wakeup(kinds.PODS, Pod, only_comes_or_goes, CLIQUESET, set_of_which_it_uses, debounced_by_children),
)


def children(kinds_of_children: Iterable[Kind]) -> tuple[Wakeup, ...]:
    """A set looks when a child of it changes, of whatever kind."""
    return tuple(
        Wakeup(kind.resource, kind.view, child_changed, CLIQUESET, its_set, debounced_by_children)
        for kind in kinds_of_children
    )


#: Who looks when an object's status is not what we wrote last: somebody edited it, or a write whose answer
#: was lost took effect all the same.
STATUSES: tuple[Wakeup, ...] = (
    Wakeup(kinds.CLIQUESETS, PodCliqueSet, status_changed, CLIQUESET, itself, debounced),
    Wakeup(kinds.CLIQUES, PodClique, status_changed, CLIQUE, itself, debounced),
    Wakeup(kinds.GANGS, PodGang, status_changed, GANG, itself, debounced),
    Wakeup(kinds.SCALING_GROUPS, PodCliqueScalingGroup, status_changed, SCALING_GROUP, itself, debounced),
    Wakeup(kinds.TOPOLOGY_BINDINGS, ClusterTopologyBinding, status_changed, TOPOLOGY, itself, debounced),
)


class NoController:
    """Stands for a controller that does not run in this process."""

    def enqueue(self, key: Key) -> None: ...
    def enqueue_after(self, key: Key, seconds: float) -> None: ...


def connect(
    cache: Cache,
    scheduling: Scheduling,
    devices: Devices,
    running: dict[str, Enqueues],
    own_writes: OwnWrites,
) -> None:
    """Subscribe the tables to the informers, and what no table says to whoever tells of it."""
    names = (CLIQUESET, SCALING_GROUP, CLIQUE, GANG, TOPOLOGY)
    controllers = {name: running.get(name, NoController()) for name in names}
    for wakeup in (*TABLE, *children(registry.KINDS), *STATUSES):
        if wakeup.controller not in running:
            continue
        if cache.informer(wakeup.resource) is None and wakeup.resource not in registry.OPTIONAL:
            raise LookupError(f"{wakeup.resource} has a wake-up but no informer")
        listen = listener(wakeup, cache, controllers[wakeup.controller])
        cache.listen(
            wakeup.resource,
            _unless_own_write(wakeup.resource, own_writes, listen) if wakeup in STATUSES else listen,
        )
    signals = _Signals(cache, devices, controllers)
    cache.listen(kinds.RESOURCE_CLAIMS, signals.claim_appeared)
    devices.templates_changed.append(signals.templates_changed)
    scheduling.remarks.changed.append(signals.remarked)
    scheduling.remarks.listed.append(signals.observation_changed)
    scheduling.observation.changed.append(signals.observation_changed)
    scheduling.listeners.append(signals.scheduler_object)
    scheduling.changed.append(signals.cluster_changed)


@dataclass(frozen=True, slots=True)
class _Signals:
    """Wake-ups that no informer of the tables delivers."""

    cache: Cache
    devices: Devices
    controllers: dict[str, Enqueues]

    def scheduler_object(
        self, resource: Resource, old: UntypedObject | None, new: UntypedObject | None
    ) -> None:
        """An object of a scheduler came, changed or went: its gang looks, or the binding of its topology."""
        item = new or old
        if item is None:
            return
        if not resource.namespaced:
            self._topology_object(item)
        elif (key := gang_key(item)) is not None and key in self.cache.store(PodGang):
            if new is not None and (old is None or not desired_state_changed(old, new)):
                # Its verdict, which the pods follow within moments; or it came, and the gang that made it
                # knows of it. Nothing waits for us.
                self.controllers[GANG].enqueue_after(key, DEBOUNCE_SECONDS)
                return
            self.controllers[GANG].enqueue(key)

    def _topology_object(self, item: UntypedObject) -> None:
        name = item.owner.name if item.owner is not None else item.name
        self.controllers[TOPOLOGY].enqueue(Key("", name))
        for binding in self.cache.store(ClusterTopologyBinding):
            named = {each.topology_reference for each in binding.spec.scheduler_topology_bindings}
            if item.name in named:
                self.controllers[TOPOLOGY].enqueue(binding.key)

    def cluster_changed(self) -> None:
        """The cluster serves other kinds, or other backends are enabled."""
        for cliqueset in self.cache.store(PodCliqueSet):
            self.controllers[CLIQUESET].enqueue(cliqueset.key)
        for gang in self.cache.store(PodGang):
            self.controllers[GANG].enqueue(gang.key)
            for clique in its_cliques(gang, self.cache):
                self.controllers[CLIQUE].enqueue(clique)
        for binding in self.cache.store(ClusterTopologyBinding):
            self.controllers[TOPOLOGY].enqueue(binding.key)

    def observation_changed(self, backend: str) -> None:
        """What a backend observes in the cluster changed."""
        # Which sets it concerns is known only once a backend is chosen, so all of them are looked at.
        for cliqueset in self.cache.store(PodCliqueSet):
            self.controllers[CLIQUESET].enqueue(cliqueset.key)
        for gang in self.cache.store(PodGang):
            if gang.labels.get(labels.SCHEDULER_BACKEND) == backend:
                self.controllers[GANG].enqueue(gang.key)

    def remarked(self, pod: Pod) -> None:
        """A scheduler said something about a pod in an event."""
        for key in its_gang(pod, self.cache):
            self.controllers[GANG].enqueue_after(key, debounced_for_status(key, self.cache))

    def claim_appeared(self, old: Object | None, new: Object | None) -> None:
        if isinstance(new, ResourceClaim):
            for clique in self.devices.cliques_awaiting(new):
                self.controllers[CLIQUE].enqueue(clique)

    def templates_changed(self, cliqueset: Key) -> None:
        """A ResourceClaimTemplate that a set refers to came, went or was looked for."""
        self.controllers[CLIQUESET].enqueue(cliqueset)
        for clique in self.cache.store(PodClique).index("set", str(cliqueset)):
            if self.devices.awaits(clique.key):
                self.controllers[CLIQUE].enqueue(clique.key)


Listen = Callable[[Object | None, Object | None], None]

#: What these controllers look at. When one is gone, nobody need look for what goes with it. A pod that stays
#: behind is another matter: it is deleted with its clique.
_SUBJECTS: dict[str, type[Object]] = {GANG: PodGang, CLIQUE: PodClique}


def _unless_own_write(resource: Resource, own_writes: OwnWrites, listen: Listen) -> Listen:
    def hear(old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                own_writes.gone(resource, old.key)
            return
        if old is not None:
            own_writes.saw(resource, new.key, new.metadata.resource_version, lambda: listen(old, new))

    return hear


def listener(wakeup: Wakeup, cache: Cache, controller: Enqueues) -> Listen:
    """What the informer of a row of the tables calls."""
    subject = _SUBJECTS.get(wakeup.controller)
    if subject is wakeup.type:
        # That it is gone is for itself to see, once.
        subject = None

    def listen(old: Object | None, new: Object | None) -> None:
        concerns = wakeup.comes if old is None else new is None or wakeup.changed(old, new)
        debounce = wakeup.debounce if concerns else wakeup.otherwise
        if debounce is None:
            return
        # A label that moved concerns both whom it pointed to and whom it points to now.
        concerned = dict.fromkeys(wakeup.keys(new, cache) if new is not None else ())
        if old is not None and (new is None or old.metadata.labels != new.metadata.labels):
            concerned.update(dict.fromkeys(wakeup.keys(old, cache)))
        if not concerned:
            return
        goes = new is None or new.terminating
        for key in concerned:
            if goes and subject is not None and key not in cache.store(subject):
                continue
            delay = debounce(key, cache)
            if delay > 0:
                controller.enqueue_after(key, delay)
            else:
                controller.enqueue(key)

    return listen
