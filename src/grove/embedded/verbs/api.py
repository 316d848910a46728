"""The verbs on objects: read, create, update, watch. No HTTP.

A write goes through the same stations whatever its form: decode against the schema, metadata, kind strategy
and defaults, mutating webhooks, validation, validating webhooks, field ownership, store. Patches are in
`patching.py`, deletion in `deletion.py`, subresources with their own shape in `subresources.py`. Stored
objects are never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grove.embedded.clock import Clock, rfc3339
from grove.embedded.errors import (
    ApiError,
    Cause,
    Manifest,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
)
from grove.embedded.kinds import crds
from grove.embedded.kinds.catalog import Catalog
from grove.embedded.kinds.context import Context
from grove.embedded.machinery import conversion, metadata, ssa
from grove.embedded.machinery.options import ListOptions, WatchOptions, WriteOptions, is_number
from grove.embedded.machinery.selectors import Predicate, both, field_predicate, label_predicate
from grove.embedded.resource_type import ResourceType
from grove.embedded.storage.store import Entry, Store, Watcher, encode
from grove.embedded.verbs import listing
from grove.embedded.verbs.accounts import Accounts
from grove.embedded.verbs.admission import PODS, Admission
from grove.embedded.verbs.custom import CustomKinds
from grove.embedded.verbs.dynamic import DynamicAdmission
from grove.embedded.verbs.generator import Generator
from grove.embedded.verbs.listing import Page


class API:
    """The server's verbs over one store."""

    keep_status = frozenset({("", "nodes")})
    """Kinds whose status may be given at creation: a kubelet registers its node with it."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        *,
        clock: Clock,
        generator: Generator,
        managed_fields: ssa.Mode = "full",
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.clock = clock
        self.generator = generator
        self.admission = Admission(self)
        self.dynamic = DynamicAdmission(self)
        self.accounts = Accounts(self)
        self.custom = CustomKinds(self)
        self._tracking = managed_fields
        self.removed: list[Callable[[ResourceType, Manifest], None]] = [
            self.custom.after_removal,
            self.accounts.after_removal,
        ]
        """Called after an object is gone."""

    # --- reading

    def now(self) -> str:
        return rfc3339(self.clock.now())

    def find(self, group: str, plural: str, namespace: str, name: str) -> Manifest | None:
        entry = self.store.find((group, plural), namespace, name)
        return entry.obj if entry else None

    def all_of(self, group: str, plural: str, namespace: str = "") -> list[Manifest]:
        return [entry.obj for _, entry in self.store.table((group, plural)).in_order(namespace)]

    def get(self, resource: ResourceType, namespace: str, name: str) -> Entry:
        """The stored entry; 404 when there is none."""
        entry = self.store.find(resource.key, namespace if resource.namespaced else "", name)
        if entry is None:
            raise not_found(resource, name)
        return entry

    def predicate(self, resource: ResourceType, labels: str, fields: str) -> Predicate | None:
        """The filter of a list or watch, over stored objects."""
        by_field = field_predicate(fields, resource, self.catalog.selectable(resource)) if fields else None
        if by_field is not None and resource.stored_as:
            served = by_field

            def by_field(obj: Manifest) -> bool:
                return served(conversion.to_served(resource, obj))

        return both(label_predicate(labels) if labels else None, by_field)

    def page(self, resource: ResourceType, namespace: str, options: ListOptions) -> Page:
        predicate = self.predicate(resource, options.labels, options.fields)
        return listing.page_of(self.store, resource.key, namespace, options, predicate)

    def watch(
        self, resource: ResourceType, namespace: str, options: WatchOptions
    ) -> tuple[Watcher, list[Entry] | None]:
        """A watcher, and the state that it starts from when the client asked for no particular revision."""
        predicate = self.predicate(resource, options.labels, options.fields)
        text = options.resource_version
        if text and not is_number(text):
            # Kubernetes answers 500 without a reason here, and clients have been written against that.
            raise ApiError(500, "", f'strconv.ParseUint: parsing "{text}": invalid syntax')
        initial = options.initial_events or text in ("", "0")
        since = None if initial else int(text)
        watcher = self.store.watch(resource.key, namespace=namespace, predicate=predicate, since=since)
        if not initial:
            return watcher, None
        items = self.store.table(resource.key).in_order(namespace)
        return watcher, [entry for _, entry in items if predicate is None or predicate(entry.obj)]

    # --- creating

    async def create(
        self,
        resource: ResourceType,
        namespace: str,
        obj: Manifest,
        options: WriteOptions,
        *,
        managed: list[Manifest] | None = None,
    ) -> Entry:
        """Stores a new object. `managed` are the field owners that a create by apply has already found."""
        self.accept(resource, namespace, "", obj)
        home, obj = self.incoming(resource, obj, options)
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        named = self._choose_name(home, meta)
        self._refuse(
            home, meta["name"], metadata.name_errors(home, meta["name"]) + metadata.metadata_errors(meta)
        )
        self.admission.check_namespace(home, namespace, meta["name"])
        context = self.context(home, options)
        assigned = self._to_be_assigned(home, obj)
        self.begin_life(home, obj, context)
        if managed:
            meta["managedFields"] = managed
        elif managed is None and self.dynamic.concerns(options):
            # Whoever writes owns what it wrote, and not what webhooks make of it.
            self._track(home, None, self._asked_for(home, obj, assigned), options)
            managed = meta.get("managedFields") or []
        obj = await self.dynamic.mutate_new(resource, obj, options, named=named)
        meta = obj["metadata"]
        if home.has_generation:
            meta["generation"] = 1
        self._refuse(home, meta["name"], self._creation_errors(home, obj, context))
        await self.dynamic.validate("CREATE", resource, obj, None, options)
        if self.store.find(home.key, meta.get("namespace", ""), meta["name"]) is not None:
            raise already_exists(home, meta["name"])
        self.admission.check_quota(home, obj)
        if managed is None:
            self._track(home, None, self._asked_for(home, obj, assigned), options)
        if options.dry_run:
            return Entry(obj, encode(obj), 0)
        return self.commit(home, obj)

    def accept(
        self, resource: ResourceType, namespace: str, name: str, obj: Manifest, *, applied: bool = False
    ) -> None:
        """Whether the body is an object of this kind, namespace and name; fills in what the path says.

        An applied configuration stays as it is: it also owns the maps that it leaves empty.
        """
        if not isinstance(obj, dict):
            raise bad_request("the object provided is unrecognized: the body must be a JSON object")
        got = (obj.get("apiVersion") or resource.api_version, obj.get("kind") or resource.kind)
        if got[0] != resource.api_version:
            raise bad_request(
                f"the API version in the data ({got[0]}) does not match the expected API version "
                f"({resource.api_version})"
            )
        if got[1] != resource.kind:
            what = f'{got[1]} in version "{resource.version}" cannot be handled as a {resource.kind}'
            raise bad_request(
                f"{what}: converting ({got[0]}.{got[1]}) to ({resource.kind}): unknown conversion"
            )
        obj["apiVersion"], obj["kind"] = got
        meta = obj.get("metadata")
        if meta is None:
            meta = obj["metadata"] = {}
        problem = metadata.type_errors(meta) if isinstance(meta, dict) else "metadata: expected an object"
        if problem:
            what = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            raise bad_request(f"{what}: {problem}")
        if resource.namespaced:
            if (meta.get("namespace") or namespace) != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        if name and (meta.get("name") or name) != name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
            )
        if name:
            meta["name"] = name
        if not applied:
            metadata.normalise(meta)

    def incoming(
        self, resource: ResourceType, obj: Manifest, options: WriteOptions
    ) -> tuple[ResourceType, Manifest]:
        """The object in its stored version, without fields that the kind does not have."""
        home = self.catalog.registry.stored(resource)
        schema = self.catalog.schema(resource)
        if schema is not None:
            unknown = schema.prune(obj)
            if unknown:
                options.report(
                    [f'unknown field "{path}"' for path in unknown], resource.kind, resource.version
                )
            if schema.builtin:
                schema.validate(obj)
                schema.drop_empty(obj)
        ordered = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **obj}
        return home, conversion.to_stored(resource, ordered)

    def _choose_name(self, home: ResourceType, meta: Manifest) -> bool:
        """Whether the object came with a name; otherwise it gets one."""
        if meta.get("name"):
            return True
        prefix = meta.get("generateName")
        if not prefix:
            message = "Required value: name or generateName is required"
            raise invalid(home, "", [Cause("metadata.name", "FieldValueRequired", message)])
        for _ in range(8):
            meta["name"] = prefix[:58] + self.generator.suffix()
            if self.store.find(home.key, meta.get("namespace", ""), meta["name"]) is None:
                break
        return False

    def begin_life(self, home: ResourceType, obj: Manifest, context: Context) -> None:
        """Makes of what was sent a new object: identity, defaults, and what built-in admission fills in."""
        meta = obj["metadata"]
        for name in metadata.SYSTEM:
            # Kinds that do not count generations keep the one they were sent, as in Kubernetes.
            if name != "generation":
                meta.pop(name, None)
        meta.pop("managedFields", None)
        meta["uid"] = self.generator.uid()
        meta["creationTimestamp"] = context.now
        if home.has_status and home.key not in self.keep_status:
            obj.pop("status", None)
        if home.key == (crds.GROUP, crds.PLURAL):
            crds.complete(obj)
        strategy = self.catalog.strategy(home)
        strategy.prepare_create(obj, context)
        self.default(home, obj, context)
        if home.key == PODS:
            self.accounts.admit(home, obj)
        self.admission.before_create(home, obj, context)

    def _to_be_assigned(self, home: ResourceType, obj: Manifest) -> frozenset[str]:
        """The fields of the spec that the writer leaves to the server."""
        given = obj.get("spec") or {}
        return frozenset(name for name in self.catalog.strategy(home).assigned if name not in given)

    def _asked_for(self, home: ResourceType, obj: Manifest, assigned: frozenset[str]) -> Manifest:
        """What the writer of a new object owns of it; the metadata is the same dict."""
        mine = {**obj}
        if home.has_status and home.key not in self.keep_status:
            mine.pop("status", None)
        if assigned:
            mine["spec"] = {name: value for name, value in obj["spec"].items() if name not in assigned}
        return mine

    def default(self, home: ResourceType, obj: Manifest, context: Context) -> None:
        """Fills in the defaults of the kind."""
        if home.custom:
            schema = self.catalog.schema(home)
            if schema is not None:
                schema.default(obj)
        else:
            self.catalog.strategy(home).default(obj, context)

    def _creation_errors(self, home: ResourceType, obj: Manifest, context: Context) -> list[Cause]:
        if home.custom:
            schema = self.catalog.schema(home)
            return schema.validate(obj) if schema is not None else []
        causes = self.catalog.strategy(home).validate_create(obj, context)
        if home.key == (crds.GROUP, crds.PLURAL):
            causes = [*causes, *self.custom.errors(obj)]
        return causes

    def _refuse(self, home: ResourceType, name: str, causes: list[Cause]) -> None:
        if causes:
            raise invalid(home, name, causes)

    # --- updating

    async def update(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        obj: Manifest,
        options: WriteOptions,
        *,
        applied: bool = False,
    ) -> Entry:
        """Replaces an object, or a part of it by a subresource. `applied`: field owners are already right."""
        self.accept(resource, namespace, name, obj)
        home, new = self.incoming(resource, obj, options)
        entry = self.get(home, namespace, name)
        old = entry.obj
        self._check_preconditions(home, new["metadata"], old["metadata"])
        context = self.context(home, options)
        new = self.merge(home, new, old, context)
        meta = new["metadata"]
        causes = metadata.metadata_errors(meta) + metadata.new_finalizer_errors(meta, old["metadata"])
        self._refuse(home, name, causes)
        if not applied and self.dynamic.concerns(options):
            self._track(home, old, new, options)
            applied = True
        new = await self.dynamic.mutate(resource, new, old, options, context)
        self._refuse(home, name, self._update_errors(home, new, old, context))
        await self.dynamic.validate("UPDATE", resource, new, old, options)
        if self.store.find(home.key, namespace if home.namespaced else "", name) is not entry:
            raise conflict(home, name)
        if not applied:
            self._track(home, old, new, options)
        meta = new["metadata"]
        if home.has_generation and self._meaning_changed(home, new, old):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old:
            return entry
        if options.dry_run:
            return Entry(new, encode(new), entry.revision)
        return self.commit(home, new, old)

    def _check_preconditions(self, home: ResourceType, meta: Manifest, old: Manifest) -> None:
        version = meta.get("resourceVersion")
        if version and version != "0" and version != old["resourceVersion"]:
            raise conflict(home, old["name"])
        if not version and home.custom:
            message = "Invalid value: 0: must be specified for an update"
            # Of custom kinds this one refusal names the resource and not the kind.
            named = replace(home, kind=home.plural)
            raise invalid(
                named, old["name"], [Cause("metadata.resourceVersion", "FieldValueInvalid", message)]
            )
        uid = meta.get("uid")
        if uid and uid != old["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}"
            raise conflict(home, old["name"], why)

    def merge(self, home: ResourceType, new: Manifest, old: Manifest, context: Context) -> Manifest:
        """What the request may change of the old object: everything but status, or only status."""
        meta, before = new["metadata"], old["metadata"]
        for name in metadata.SYSTEM:
            meta.pop(name, None)
            if name in before:
                meta[name] = before[name]
        if meta.get("managedFields") is None and "managedFields" in before:
            meta["managedFields"] = before["managedFields"]
        strategy = self.catalog.strategy(home)
        if context.subresource == "status":
            return self._merge_status(home, new, old, context)
        if home.has_status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)
        if home.key == (crds.GROUP, crds.PLURAL):
            crds.complete(new)
        strategy.prepare_update(new, old, context)
        self.default(home, new, context)
        return new

    def _merge_status(self, home: ResourceType, new: Manifest, old: Manifest, context: Context) -> Manifest:
        """Only the status, and for built-in kinds the labels and annotations that came with it."""
        merged = {**old, "metadata": {**old["metadata"]}}
        merged.pop("status", None)
        if "status" in new:
            merged["status"] = new["status"]
        if home.custom:
            if "managedFields" in new["metadata"]:
                merged["metadata"]["managedFields"] = new["metadata"]["managedFields"]
        else:
            merged["metadata"] = new["metadata"]
            for name in ("ownerReferences", "deletionTimestamp"):
                merged["metadata"].pop(name, None)
                if name in old["metadata"]:
                    merged["metadata"][name] = old["metadata"][name]
        self.catalog.strategy(home).prepare_status(merged, old, context)
        if home.custom:
            # The rest is the stored object itself, which already has its defaults.
            schema = self.catalog.schema(home)
            if schema is not None:
                schema.default(merged)
        return merged

    def _update_errors(
        self, home: ResourceType, new: Manifest, old: Manifest, context: Context
    ) -> list[Cause]:
        if home.custom:
            schema = self.catalog.schema(home)
            return schema.validate(new, old) if schema is not None else []
        if context.subresource == "status":
            return self.catalog.strategy(home).validate_status(new, old, context)
        causes = self.catalog.strategy(home).validate_update(new, old, context)
        if home.key == (crds.GROUP, crds.PLURAL):
            causes = [*causes, *self.custom.errors(new)]
        return causes

    @staticmethod
    def _meaning_changed(home: ResourceType, new: Manifest, old: Manifest) -> bool:
        ignored = ("metadata", "status") if home.has_status else ("metadata",)
        if all(new.get(name) == old.get(name) for name in ("spec",)) and new.keys() == old.keys():
            return any(new[name] != old[name] for name in new if name not in ignored)
        wanted = {name: value for name, value in new.items() if name not in ignored}
        return wanted != {name: value for name, value in old.items() if name not in ignored}

    # --- the stations that creates and updates share

    def context(self, home: ResourceType, options: WriteOptions) -> Context:
        return Context(
            resource=home,
            now=self.now(),
            user=options.user,
            minor=self.catalog.minor,
            find=self.find,
            all_of=self.all_of,
            new_cluster_ip=self.generator.cluster_ip,
            subresource=options.subresource,
            dry_run=options.dry_run,
            features=self.catalog.features,
        )

    def _track(self, home: ResourceType, old: Manifest | None, new: Manifest, options: WriteOptions) -> None:
        """Records which manager set which field; in lazy mode only once somebody has applied the object."""
        ssa.track(
            old,
            new,
            manager=options.manager,
            operation="Update",
            schema=self.catalog.schema(home),
            now=self.now(),
            subresource=options.subresource,
            api_version=home.api_version,
            mode=self._tracking,
        )

    def commit(self, home: ResourceType, new: Manifest, old: Manifest | None = None) -> Entry:
        """Stores the object, or removes it when this write took away the last thing that kept it."""
        if home.key == (crds.GROUP, crds.PLURAL):
            self.custom.before_store(new)
        if old is not None and finished(home, new):
            entry = self.store.retire(home.key, new)
            self._after_removal(home, new)
            return entry
        entry = self.store.put(home.key, new)
        if home.key == (crds.GROUP, crds.PLURAL):
            self.custom.after_store(new)
        if old is None:
            self.accounts.after_creation(home, new)
        self.admission.after_write(home, new)
        return entry

    def remove(self, home: ResourceType, obj: Manifest) -> Entry:
        """Takes an object out of the store; whoever depends on that is told."""
        meta = obj["metadata"]
        entry = self.store.remove(home.key, meta.get("namespace") or "", meta["name"])
        self._after_removal(home, obj)
        return entry

    def _after_removal(self, home: ResourceType, obj: Manifest) -> None:
        for listener in self.removed:
            listener(home, obj)
        self.admission.after_write(home, obj)


def finished(home: ResourceType, obj: Manifest) -> bool:
    """Whether an object that is being deleted has nothing left that keeps it."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return home.key != ("", "namespaces") or not (obj.get("spec") or {}).get("finalizers")
