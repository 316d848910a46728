"""What a request asks besides the object: options of writes, deletions, lists and watches, read from the
query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from grove.embedded.errors import Manifest, bad_request, invalid_options
from grove.embedded.identity import ADMIN, User

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_LARGEST = (1 << 63) - 1
TRUE = ("true", "1", "True", "t", "T", "TRUE")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    user: User = ADMIN
    manager: str = "unknown"
    dry_run: bool = False
    field_validation: str = "Warn"
    force: bool = False
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    """Filled while the request is worked on; becomes `Warning` headers."""
    asked: Manifest = field(default_factory=dict)
    """The options as the client named them, for those who are told about the request."""
    admitted: bool = False
    """Webhooks were asked already, about the request that this write is a part of."""

    @property
    def strict(self) -> bool:
        return self.field_validation == "Strict"

    def report(self, problems: list[str], kind: str, version: str) -> None:
        """Refuses, warns about, or ignores what strict decoding found, as the request asked."""
        if not problems or self.field_validation == "Ignore":
            return
        if self.strict:
            what = f'{kind} in version "{version}" cannot be handled as a {kind}'
            raise bad_request(f"{what}: strict decoding error: {', '.join(problems)}")
        self.warnings.extend(problems)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_seconds: int | None = None
    policy: str = ""
    """Background, Foreground, Orphan, or empty for the kind's default."""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ListOptions:
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    bookmarks: bool = False
    initial_events: bool = False
    timeout: float = 1800.0


def write_options(
    query: Mapping[str, str],
    *,
    user: User,
    agent: str,
    subresource: str,
    warnings: list[str],
    kind: str = "CreateOptions",
) -> WriteOptions:
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        why = f'Unsupported value: "{validation}": supported values: "Ignore", "Strict", "Warn"'
        raise invalid_options(kind, "fieldValidation", why)
    return WriteOptions(
        user=user,
        manager=query.get("fieldManager") or agent.split("/")[0] or "unknown",
        dry_run=_dry_run(query.get("dryRun"), kind),
        field_validation=validation,
        force=query.get("force") in TRUE,
        subresource=subresource,
        warnings=warnings,
        asked=_asked(query),
    )


def _asked(query: Mapping[str, str]) -> Manifest:
    asked: Manifest = {"dryRun": [query["dryRun"]]} if query.get("dryRun") else {}
    for name in ("fieldManager", "fieldValidation"):
        if query.get(name):
            asked[name] = query[name]
    return asked


def _dry_run(value: str | None, kind: str) -> bool:
    if value in (None, ""):
        return False
    if value != "All":
        why = f'Unsupported value: ["{value}"]: supported values: "All"'
        raise invalid_options(kind, "dryRun", why)
    return True


def delete_options(query: Mapping[str, str], body: Manifest) -> DeleteOptions:
    """The options of a delete; the query counts before the body."""
    preconditions = body.get("preconditions") or {}
    orphan = query.get("orphanDependents", body.get("orphanDependents"))
    policy = query.get("propagationPolicy") or body.get("propagationPolicy") or ""
    if policy not in ("", "Background", "Foreground", "Orphan"):
        why = f'Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        raise invalid_options("DeleteOptions", "propagationPolicy", why)
    if orphan is not None and policy:
        why = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options("DeleteOptions", "propagationPolicy", why)
    if orphan is not None:
        policy = "Orphan" if orphan in (True, *TRUE) else "Background"
    grace = query.get("gracePeriodSeconds", body.get("gracePeriodSeconds"))
    dry_run = body.get("dryRun") or ()
    return DeleteOptions(
        grace_seconds=None if grace is None else _integer("gracePeriodSeconds", str(grace)),
        policy=policy,
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        dry_run=any(_dry_run(each, "DeleteOptions") for each in (query.get("dryRun"), *dry_run)),
    )


def deletion_asked(query: Mapping[str, str], body: Manifest) -> Manifest:
    """The options of a delete as the client named them; only a query can do without a body."""
    if body:
        return {name: value for name, value in body.items() if name not in ("kind", "apiVersion")}
    asked: Manifest = {"dryRun": [query["dryRun"]]} if query.get("dryRun") else {}
    if grace := query.get("gracePeriodSeconds"):
        asked["gracePeriodSeconds"] = int(grace)
    if "orphanDependents" in query:
        asked["orphanDependents"] = query["orphanDependents"] in TRUE
    if query.get("propagationPolicy"):
        asked["propagationPolicy"] = query["propagationPolicy"]
    return asked


def list_options(query: Mapping[str, str]) -> ListOptions:
    return ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=_integer("limit", query.get("limit", "0")),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
    )


def watch_options(query: Mapping[str, str], name: str = "") -> WatchOptions:
    fields = query.get("fieldSelector", "")
    if name:
        fields = f"metadata.name={name}" + (f",{fields}" if fields else "")
    return WatchOptions(
        labels=query.get("labelSelector", ""),
        fields=fields,
        resource_version=query.get("resourceVersion", ""),
        bookmarks=query.get("allowWatchBookmarks") in TRUE,
        initial_events=query.get("sendInitialEvents") in TRUE,
        timeout=float(max(_integer("timeoutSeconds", query.get("timeoutSeconds") or "0"), 0) or 1800),
    )


def _integer(name: str, text: str) -> int:
    """A number of 64 bits in plain digits; Python would read more, such as digits of other scripts."""
    if _WHOLE.fullmatch(text) is None or abs(int(text)) > _LARGEST:
        raise bad_request(f'{name}: "{text[:50]}" is not a whole number of 64 bits')
    return int(text)


def is_number(text: str) -> bool:
    """Whether a text is a resourceVersion that a server can have given out."""
    return text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 1 << 64
