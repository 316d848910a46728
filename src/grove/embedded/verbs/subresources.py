"""Subresources with a shape of their own: scale, binding, log, finalize.

Each is a small translation to a read or write of the object itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from grove.embedded.errors import (
    Cause,
    Manifest,
    bad_request,
    conflict,
    invalid,
    no_such_path,
)
from grove.embedded.kinds.crds import ScalePaths
from grove.embedded.kinds.pod import bind as bind_pod
from grove.embedded.machinery.options import WriteOptions
from grove.embedded.machinery.selectors import at_path
from grove.embedded.resource_type import ResourceType
from grove.embedded.storage.store import Entry, encode
from grove.embedded.verbs.api import API

LOGS_ANNOTATION = "embedded.grove.io/logs"
decode = msgspec.json.Decoder().decode


class Subresources:
    def __init__(self, api: API) -> None:
        self._api = api

    # --- scale

    def get_scale(self, resource: ResourceType, namespace: str, name: str) -> Manifest:
        paths = self._paths(resource)
        return scale_of(self._api.get(resource, namespace, name).obj, paths)

    async def put_scale(
        self, resource: ResourceType, namespace: str, name: str, scale: Manifest, options: WriteOptions
    ) -> Manifest:
        """Writes the replicas that a Scale asks for into the object itself."""
        paths = self._paths(resource)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise bad_request(
                'Scale in version "v1" cannot be handled as a Scale: spec.replicas must be an integer'
            )
        if replicas < 0:
            message = f"Invalid value: {replicas}: must be greater than or equal to 0"
            raise invalid(_SCALE, name, [Cause("spec.replicas", "FieldValueInvalid", message)])
        replicas = await self._admitted(resource, (namespace, name), scale, replicas, options)
        obj = decode(self._api.get(resource, namespace, name).raw)
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version and version != obj["metadata"]["resourceVersion"]:
            raise conflict(resource, name)
        place = obj
        for part in paths.spec_replicas[:-1]:
            place = place.setdefault(part, {})
        place[paths.spec_replicas[-1]] = replicas
        plain = WriteOptions(
            user=options.user,
            manager=options.manager,
            dry_run=options.dry_run,
            field_validation="Ignore",
            subresource="scale",
            admitted=True,
        )
        # Who scales a custom object takes the field over; a default that nobody set stays nobody's.
        untracked = resource.custom and not _owned(obj, paths.spec_replicas)
        entry = await self._api.update(resource, namespace, name, obj, plain, applied=untracked)
        return scale_of(entry.obj, paths)

    async def _admitted(
        self,
        resource: ResourceType,
        key: tuple[str, str],
        scale: Manifest,
        replicas: int,
        options: WriteOptions,
    ) -> int:
        """The replicas that webhooks leave of a Scale, which is what they are asked about."""
        if not self._api.dynamic.concerns(options):
            return replicas
        old = self.get_scale(resource, *key)
        new = {**old, "spec": {"replicas": replicas}}
        if version := (scale.get("metadata") or {}).get("resourceVersion"):
            new["metadata"] = {**old["metadata"], "resourceVersion": version}
        admitted = await self._api.dynamic.admit_body(
            "UPDATE", resource, key, new, options, shape=_SCALE_KIND, old=old
        )
        return int((admitted.get("spec") or {}).get("replicas") or 0)

    def _paths(self, resource: ResourceType) -> ScalePaths:
        paths = self._api.catalog.scale(resource)
        if paths is None:
            raise no_such_path()
        return paths

    # --- pods

    async def bind(self, namespace: str, name: str, binding: Manifest, options: WriteOptions) -> None:
        """Assigns a pod to a node, once, and only when no gate holds it back."""
        pods = self._pods()
        binding = await self._api.dynamic.admit_body(
            "CREATE",
            pods if options.subresource else _BINDINGS,
            (namespace, name),
            binding,
            options,
            shape=_BINDING,
        )
        obj = self._api.get(pods, namespace, name).obj
        uid = (binding.get("metadata") or {}).get("uid")
        if uid and uid != obj["metadata"]["uid"]:
            actual = obj["metadata"]["uid"]
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
            raise conflict(pods, name, why)
        bound = bind_pod(obj, binding, self._api.context(pods, options))
        if bound["metadata"].get("generation"):
            bound["metadata"]["generation"] += 1
        if not options.dry_run:
            self._api.store.put(pods.key, bound)

    def log_of(
        self,
        namespace: str,
        name: str,
        *,
        container: str,
        tail: int | None,
        printed: Callable[[str, str, str], list[str]],
    ) -> str:
        """What a container printed, or what the pod's annotation says; else one plausible line."""
        pod = self._api.get(self._pods(), namespace, name).obj
        names = [c["name"] for c in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]]
        chosen = container or pod["spec"]["containers"][0]["name"]
        if chosen not in names:
            raise bad_request(f"container {chosen} is not valid for pod {name}")
        lines = printed(namespace, name, chosen)
        phase = (pod.get("status") or {}).get("phase")
        if phase == "Pending" and not lines:
            why = "ContainerCreating" if pod["spec"].get("nodeName") else "not scheduled to a node yet"
            raise bad_request(f'container "{chosen}" in pod "{name}" is waiting to start: {why}')
        text = (pod["metadata"].get("annotations") or {}).get(LOGS_ANNOTATION)
        plausible = [f"{chosen}: simulated container of pod {namespace}/{name} started"]
        lines = lines or (text.splitlines() if text else plausible)
        if tail is not None:
            lines = lines[-tail:] if tail > 0 else []
        return "".join(f"{line}\n" for line in lines)

    def _pods(self) -> ResourceType:
        pods = self._api.catalog.registry.lookup("", "v1", "pods")
        assert pods is not None
        return pods

    # --- namespaces

    async def finalize(self, name: str, obj: Manifest, options: WriteOptions) -> Entry:
        """Writes a namespace's spec.finalizers; a terminating namespace without any goes."""
        home = self._api.catalog.registry.lookup("", "v1", "namespaces")
        assert home is not None
        old = self._api.get(home, "", name).obj
        version = (obj.get("metadata") or {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(home, name)
        spec = {**(old.get("spec") or {})}
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        spec.pop("finalizers", None)
        if finalizers:
            spec["finalizers"] = finalizers
        new = {**old, "metadata": {**old["metadata"]}, "spec": spec}
        if self._api.dynamic.concerns(options):
            await self._api.dynamic.validate("UPDATE", home, new, old, options)
            if self._api.get(home, "", name).obj is not old:
                raise conflict(home, name)
        if options.dry_run:
            return Entry(new, encode(new), 0)
        return self._api.commit(home, new, old)


_SCALE = ResourceType("autoscaling", "v1", "Scale", "scales", "scale")
_SCALE_KIND = ("autoscaling", "v1", "Scale")
_BINDING = ("", "v1", "Binding")
_BINDINGS = ResourceType("", "v1", "Binding", "bindings", "binding")


def scale_of(obj: Manifest, paths: ScalePaths) -> Manifest:
    """An object's Scale."""
    meta = obj["metadata"]
    status: Manifest = {"replicas": at_path(obj, paths.status_replicas) or 0}
    if paths.selector:
        selector = at_path(obj, paths.selector)
    else:
        selector = _selector_text((obj.get("spec") or {}).get("selector"))
    if selector:
        status["selector"] = selector
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in shown if name in meta},
        "spec": {"replicas": at_path(obj, paths.spec_replicas) or 0},
        "status": status,
    }


def _selector_text(selector: object) -> str:
    if not isinstance(selector, dict):
        return ""
    labels = selector.get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _owned(obj: Manifest, path: Sequence[str]) -> bool:
    """Whether some manager owns the field at a path."""
    for entry in obj["metadata"].get("managedFields") or ():
        found = entry.get("fieldsV1")
        for part in path:
            found = found.get(f"f:{part}") if found is not None else None
        if found is not None:
            return True
    return False
