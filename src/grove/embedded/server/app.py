"""Requests in, responses out: authentication, authorisation, faults, routing, and the log of all that.

The same for requests that come over HTTPS and for those from inside the process. It decides nothing about
objects; that is the business of `verbs`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from grove.embedded.access.authentication import Authenticator, service_account_user
from grove.embedded.access.rbac import Attributes, Authorizer
from grove.embedded.access.reviews import Reviews
from grove.embedded.errors import (
    ApiError,
    Manifest,
    bad_request,
    internal,
    method_not_allowed,
    no_such_path,
    not_implemented,
    unsupported_media,
)
from grove.embedded.faults import ConnectionLost, Fault, Faults, strike
from grove.embedded.identity import User
from grove.embedded.machinery.conversion import to_served
from grove.embedded.machinery.options import (
    DeleteOptions,
    WriteOptions,
    delete_options,
    deletion_asked,
    list_options,
    watch_options,
    write_options,
)
from grove.embedded.machinery.schema import builtin_schema
from grove.embedded.machinery.selectors import selected_name
from grove.embedded.requests import Logged, RequestLog
from grove.embedded.server import discovery, openapi, openapi_v2
from grove.embedded.server.messages import JSON, Request, Response, reply
from grove.embedded.server.negotiation import (
    PROTOBUF,
    TOO_DEEP,
    YAML,
    Form,
    decode_request,
    duplicate_fields,
    form_of,
    media_type,
)
from grove.embedded.server.representation import Representation
from grove.embedded.server.routing import Target, group_version, target_of
from grove.embedded.server.streams import WatchStream, error_frame, only
from grove.embedded.storage.store import encode
from grove.embedded.verbs.api import API
from grove.embedded.verbs.deletion import Deletions
from grove.embedded.verbs.eviction import Evictions
from grove.embedded.verbs.listing import Page
from grove.embedded.verbs.patching import APPLY, Patches, accepted_types, is_pinned, patched
from grove.embedded.verbs.subresources import Subresources

__all__ = ["App", "ConnectionLost", "Request", "Response", "User"]

log = logging.getLogger(__name__)
SUCCESS: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
CREATED: Manifest = {**SUCCESS, "code": 201}
SHOWN_WHEN_DELETED = frozenset(
    [
        "Pod",
        "PodTemplate",
        "Service",
        "ServiceAccount",
        "ResourceQuota",
        "PersistentVolume",
        "PersistentVolumeClaim",
    ]
)
"""Core kinds whose deletion answers with the object; others answer with a Status."""
_NOT_SIMULATED = frozenset({"exec", "attach", "portforward", "proxy"})
SHAPES = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
"""Group, version and kind of what is sent to a subresource, where it is not the object itself."""
_REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
PATCH_RELEASES = {"1.35": 3, "1.36": 4, "1.37": 1}
_HEALTH = frozenset({"healthz", "livez", "readyz"})


@dataclass(slots=True)
class Trace:
    """What the request log will say, as far as it is known."""

    user: str
    verb: str = ""
    resource: str = ""
    warnings: list[str] = field(default_factory=list)
    """What the client is told besides the answer, be it a refusal."""


@dataclass(slots=True)
class Call:
    """One request on its way: what it addresses and what has been found out about it."""

    request: Request
    target: Target
    user: User
    warnings: list[str]
    form: Form

    @property
    def include(self) -> str:
        return self.request.query.get("includeObject") or "Metadata"

    def write_options(self) -> WriteOptions:
        return write_options(
            self.request.query,
            user=self.user,
            agent=self.request.headers.get("user-agent", ""),
            subresource=self.target.subresource,
            warnings=self.warnings,
            kind=f"{self.target.verb.capitalize()}Options",
        )


class App:
    def __init__(
        self,
        api: API,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        faults: Faults | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        self.api = api
        self.authenticator = authenticator
        self.authorizer = authorizer
        self.faults = faults or Faults()
        self.requests = RequestLog() if requests is None else requests
        self.deletions = Deletions(api)
        self.bookmark_seconds = 60.0
        #: What a container has printed, by namespace, pod and container; known to whoever plays the kubelets.
        self.log_lines: Callable[[str, str, str], list[str]] = lambda namespace, pod, container: []
        self._patches = Patches(api)
        self._subresources = Subresources(api)
        self._evictions = Evictions(api, self.deletions)
        self._reviews = Reviews(authorizer, authenticator)
        self._shown = Representation(api)
        self._documents: dict[str, tuple[int, bytes]] = {}
        self._verbs: dict[str, Callable[[Call], Awaitable[Response]]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def handle(self, request: Request) -> Response:
        """Answers one request; raises only `ConnectionLost`, when a fault wants no answer at all."""
        trace = Trace(user=request.user.name if request.user else "")
        try:
            user = request.user or self.authenticator.user_of(request.headers.get("authorization", ""))
            if request.headers.get("impersonate-user"):
                user = self._impersonated(request, user)
            elif request.headers.get("impersonate-group"):
                raise bad_request("a group can only be impersonated together with a user")
            trace.user = user.name
            response = await self._route(request, user, trace)
        except ApiError as error:
            response = reply(error.to_status(), error.status, headers=error.headers)
        except RecursionError:
            response = reply(bad_request(TOO_DEEP).to_status(), 400)
        except ConnectionLost:
            self._log(request, trace, 0)
            raise
        except Exception as error:
            # One broken request must not end the server; what broke is for the log.
            log.exception("request failed", extra={"method": request.method, "path": request.path})
            response = reply(internal(f"{type(error).__name__}: {error}").to_status(), 500)
        response.warnings = tuple(dict.fromkeys(trace.warnings))
        self._log(request, trace, response.status)
        return response

    def _impersonated(self, request: Request, user: User) -> User:
        """The user that the caller wants to act as (`kubectl --as`), when it may."""
        name = request.headers["impersonate-user"]
        self.authorizer.check(user, Attributes(verb="impersonate", resource="users", name=name))
        groups = [group.strip() for group in request.headers.get("impersonate-group", "").split(",")]
        for group in filter(None, groups):
            self.authorizer.check(user, Attributes(verb="impersonate", resource="groups", name=group))
        if name.startswith("system:serviceaccount:") and not any(groups):
            namespace, _, account = name.removeprefix("system:serviceaccount:").partition(":")
            return service_account_user(namespace, account)
        return User(name, (*filter(None, groups), "system:authenticated"))

    def _log(self, request: Request, trace: Trace, status: int) -> None:
        entry = Logged(
            method=request.method,
            path=request.path,
            verb=trace.verb,
            resource=trace.resource,
            user=trace.user,
            agent=request.headers.get("user-agent", ""),
            status=status,
            revision=self.api.store.revision,
            dry_run=bool(request.query.get("dryRun")),
        )
        self.requests.add(entry)

    # --- routing

    async def _route(self, request: Request, user: User, trace: Trace) -> Response:
        parts = [part for part in request.path.split("/") if part]
        found = group_version(parts) if parts else None
        if found is None or not found[2]:
            self.authorizer.check(user, Attributes(verb=request.method.lower(), path=request.path or "/"))
            return self._document(request, parts)
        target = target_of(request, self.api.catalog.registry, *found)
        trace.resource = target.label
        trace.verb = target.verb
        if target.verb == "patch" and media_type(request.headers.get("content-type", "")) == APPLY:
            trace.verb = "apply"
        self._authorise(user, target, request.query.get("fieldSelector", ""))
        call = Call(request, target, user, trace.warnings, form_of(request.headers.get("accept", "")))
        return await self._perform(call, trace)

    async def _perform(self, call: Call, trace: Trace) -> Response:
        """Does what is asked, with whatever the faults of this cluster do to it."""
        verb = self._verbs[call.target.verb]
        if not self.faults.active:
            return await verb(call)
        fault = self.faults.for_request(trace.verb, trace.resource, trace.user, call.target.name)
        if fault is None:
            return await verb(call)
        if fault.after:
            await verb(call)
        strike(fault, trace.resource, call.target.name)
        raise AssertionError("unreachable: a fault always raises")

    def _authorise(self, user: User, target: Target, fields: str) -> None:
        if user.is_master:
            return
        asked = Attributes(
            verb=target.verb,
            group=target.resource.group,
            resource=target.resource.plural,
            subresource=target.subresource,
            namespace=target.namespace,
            # A list of one name is a look at that object, which a role may allow by its name.
            name=target.name or selected_name(fields),
        )
        self.authorizer.check(user, asked)

    def _document(self, request: Request, parts: list[str]) -> Response:
        """Everything that is about the server and not about objects."""
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        registry = self.api.catalog.registry
        if not parts:
            return reply(
                {
                    "paths": [
                        "/api",
                        "/apis",
                        "/healthz",
                        "/livez",
                        "/openapi/v2",
                        "/openapi/v3",
                        "/readyz",
                        "/version",
                    ]
                }
            )
        if parts[0] in _HEALTH:
            return reply(b"ok", kind="text/plain; charset=utf-8")
        if parts == ["version"]:
            return reply(version_info(self.api.catalog.minor))
        if parts[:2] == ["openapi", "v3"]:
            return self._openapi(parts[2:])
        if parts == ["openapi", "v2"]:
            return self._openapi_v2(request.headers.get("accept", ""))
        if parts in (["api"], ["apis"]):
            core = parts == ["api"]
            if discovery.wants_aggregated(request.headers.get("accept", "")):
                return reply(discovery.aggregated(registry, core=core), kind=discovery.AGGREGATED)
            return reply(discovery.api_versions() if core else discovery.group_list(registry))
        found = self._group_document(parts)
        if found is None:
            raise no_such_path()
        return reply(found)

    def _group_document(self, parts: list[str]) -> Manifest | None:
        registry = self.api.catalog.registry
        if parts[0] == "apis" and len(parts) == 2:
            return discovery.api_group(registry, parts[1])
        found = group_version(parts)
        return discovery.resource_list(registry, found[0], found[1]) if found and not found[2] else None

    def _openapi(self, parts: list[str]) -> Response:
        if not parts:
            return reply(openapi.index(self.api.catalog))
        found = group_version(parts)
        if found is None or found[2]:
            raise no_such_path()
        revision = self.api.catalog.registry.revision
        path = "/".join(parts)
        known = self._documents.get(path)
        if known is None or known[0] != revision:
            document = openapi.document(self.api.catalog, found[0], found[1])
            if document is None:
                raise no_such_path()
            known = self._documents[path] = (revision, encode(document))
        return reply(known[1], headers={"Cache-Control": "public, max-age=31536000"})

    def _openapi_v2(self, accept: str) -> Response:
        as_protobuf = openapi_v2.wants_protobuf(accept)
        kind = openapi_v2.PROTOBUF if as_protobuf else JSON
        revision = self.api.catalog.registry.revision
        known = self._documents.get(kind)
        if known is None or known[0] != revision:
            catalog = self.api.catalog
            content = openapi_v2.protobuf(catalog) if as_protobuf else encode(openapi_v2.document(catalog))
            known = self._documents[kind] = (revision, content)
        return reply(known[1], kind=kind)

    # --- reading

    async def _get(self, call: Call) -> Response:
        target = call.target
        if target.subresource == "scale":
            return reply(self._subresources.get_scale(target.resource, target.namespace, target.name))
        if target.subresource == "log":
            return self._log_text(call)
        if target.subresource in _NOT_SIMULATED:
            raise not_implemented(f"{target.resource.plural}/{target.subresource}")
        entry = self.api.get(target.resource, target.namespace, target.name)
        return self._shown.one(target.resource, entry, call.form, include=call.include)

    def _log_text(self, call: Call) -> Response:
        query = call.request.query
        tail = query.get("tailLines")
        if tail is not None and not tail.isdigit():
            raise bad_request(f'tailLines: Invalid value: "{tail}": must be greater than or equal to 0')
        text = self._subresources.log_of(
            call.target.namespace,
            call.target.name,
            container=query.get("container", ""),
            tail=None if tail is None else int(tail),
            printed=self.log_lines,
        )
        return reply(text.encode(), kind="text/plain")

    async def _list(self, call: Call) -> Response:
        target = call.target
        page = self.api.page(target.resource, target.namespace, list_options(call.request.query))
        return self._shown.many(target.resource, page, call.form, include=call.include)

    async def _watch(self, call: Call) -> Response:
        target = call.target
        options = watch_options(call.request.query, target.name)
        headers = {"Content-Type": JSON}
        try:
            watcher, initial = self.api.watch(target.resource, target.namespace, options)
        except ApiError as error:
            if error.status != 410:
                raise
            return Response(200, headers, only(error_frame(error)))
        fault: Fault | None = None
        if self.faults.active:
            fault = self.faults.for_watch(target.label, call.user.name)
        stream = WatchStream(
            api=self.api,
            resource=target.resource,
            options=options,
            form=call.form,
            printer=self._shown.printer,
            include=call.include,
            fault=fault,
            bookmark_seconds=self.bookmark_seconds,
        )
        return Response(200, headers, stream.frames(watcher, initial))

    # --- writing

    async def _body(self, call: Call) -> Manifest:
        """The body as an object, with duplicate keys reported as the request asked."""
        request = call.request
        kind = request.headers.get("content-type", JSON)
        if call.target.resource.custom and media_type(kind) == PROTOBUF and request.method != "DELETE":
            raise unsupported_media([JSON, YAML])
        if not request.body and request.method != "DELETE":
            raise bad_request("the body of the request is empty: an object is needed")
        decoded = await decode_request(request.body, kind)
        if not isinstance(decoded, dict):
            raise bad_request("the object provided is unrecognized: the body must be an object")
        if request.query.get("fieldValidation") != "Ignore" and media_type(kind) == JSON:
            doubled = duplicate_fields(request.body, decoded)
            call.write_options().report(doubled, call.target.resource.kind, call.target.resource.version)
        return self._checked(decoded, *shape) if (shape := _shape_of(call)) else decoded

    def _checked(self, body: Manifest, group: str, version: str, kind: str) -> Manifest:
        """A body that is only read and never stored, checked against its schema; 400 when it does not fit."""
        schema = builtin_schema(self.api.catalog.minor, group, version, kind)
        if schema is not None:
            schema.prune(body)
            schema.validate(body)
        return body

    async def _create(self, call: Call) -> Response:
        target = call.target
        resource = target.resource
        if target.subresource in _NOT_SIMULATED:
            raise not_implemented(f"{resource.plural}/{target.subresource}")
        body, options = await self._body(call), call.write_options()
        if resource.group in _REVIEW_GROUPS or target.subresource == "token":
            shape = SHAPES.get(target.subresource)
            key = (target.namespace, target.name)
            body = await self.api.dynamic.admit_body("CREATE", resource, key, body, options, shape=shape)
        if resource.group in _REVIEW_GROUPS:
            return reply(self._reviews.answer(resource, target.namespace, body, call.user), 201)
        if target.subresource == "token":
            return reply(self.authenticator.issue(target.namespace, target.name, body), 201)
        if target.subresource == "binding" or resource.kind == "Binding":
            name = target.name or (body.get("metadata") or {}).get("name", "")
            await self._subresources.bind(target.namespace, name, body, options)
            return reply(CREATED, 201)
        if target.subresource == "eviction":
            return reply(await self._evictions.evict(target.namespace, target.name, body, options), 201)
        if target.subresource:
            raise method_not_allowed()
        entry = await self.api.create(resource, target.namespace, body, options)
        return self._shown.one(resource, entry, call.form, include=call.include, status=201)

    async def _update(self, call: Call) -> Response:
        target, body, options = call.target, await self._body(call), call.write_options()
        where = (target.resource, target.namespace, target.name)
        if target.subresource == "scale":
            return reply(await self._subresources.put_scale(*where, body, options))
        if target.subresource == "finalize":
            entry = await self._subresources.finalize(target.name, body, options)
        else:
            entry = await self.api.update(*where, body, options)
        return self._shown.one(target.resource, entry, call.form, include=call.include)

    async def _patch(self, call: Call) -> Response:
        target, request, options = call.target, call.request, call.write_options()
        kind = media_type(request.headers.get("content-type", ""))
        if kind not in accepted_types(target.resource):
            raise unsupported_media(accepted_types(target.resource))
        if not request.body:
            raise bad_request("error decoding patch: unexpected end of JSON input")
        patch = await decode_request(request.body, kind)
        if not isinstance(patch, (dict, list)):
            raise bad_request("the body of a patch must be an object or a list")
        where = (target.resource, target.namespace, target.name)
        if target.subresource == "scale":
            scale = self._subresources.get_scale(*where)
            new = self._checked(patched(scale, patch, kind, schema=None), *SHAPES["scale"])
            if not is_pinned(patch):
                new.get("metadata", {}).pop("resourceVersion", None)
            return reply(await self._subresources.put_scale(*where, new, options))
        if kind == APPLY:
            options = replace(options, manager=request.query.get("fieldManager", ""))
        entry, created = await self._patches.patch(
            target.resource, (target.namespace, target.name), patch, kind, options
        )
        status = 201 if created else 200
        return self._shown.one(target.resource, entry, call.form, include=call.include, status=status)

    async def _delete(self, call: Call) -> Response:
        target = call.target
        resource = target.resource
        options, write = await self._deletion(call)
        obj, gone = await self.deletions.delete(resource, target.namespace, target.name, options, write)
        if not gone or (not resource.group and resource.kind in SHOWN_WHEN_DELETED):
            return reply(to_served(resource, obj))
        details = {"name": target.name, "kind": resource.plural, "uid": obj["metadata"]["uid"]}
        if resource.group:
            details["group"] = resource.group
        return reply({**SUCCESS, "details": details})

    async def _deletion(self, call: Call) -> tuple[DeleteOptions, WriteOptions]:
        """How a deletion is asked for."""
        query, body = call.request.query, await self._body(call)
        options, asked = delete_options(query, body), deletion_asked(query, body)
        return options, replace(call.write_options(), dry_run=options.dry_run, asked=asked)

    async def _delete_collection(self, call: Call) -> Response:
        target, query = call.target, call.request.query
        options, write = await self._deletion(call)
        entries = await self.deletions.delete_collection(
            target.resource, target.namespace, list_options(query), options, write
        )
        return self._shown.many(target.resource, Page(entries, self.api.store.revision), Form.OBJECT)


def _shape_of(call: Call) -> tuple[str, str, str] | None:
    """Group, version and kind of a body that is not an object of the resource; None when it is one."""
    resource = call.target.resource
    if call.request.method == "DELETE":
        return "", "v1", "DeleteOptions"
    if resource.group in _REVIEW_GROUPS or resource.kind == "Binding":
        return resource.group, resource.version, resource.kind
    return SHAPES.get(call.target.subresource)


def version_info(minor: str) -> Manifest:
    """What `/version` says: the Kubernetes that this server plays, marked as not the real one."""
    major, _, number = minor.partition(".")
    return {
        "major": major,
        "minor": number,
        "gitVersion": f"v{minor}.{PATCH_RELEASES.get(minor, 0)}-embedded",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "python",
        "platform": "any/any",
    }
