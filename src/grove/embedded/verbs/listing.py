"""Pages of objects: consistent across pages, resumable by an opaque token that the server need not remember.

A token names a revision and the last key shown; the store rebuilds the table as it was then. When the store
has forgotten that revision the answer is 410 with a token that continues from the same key in the current
state.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

from grove.embedded.errors import ApiError, Manifest, bad_request, gone, invalid_options
from grove.embedded.machinery.options import ListOptions, is_number
from grove.embedded.storage.store import Entry, ObjectKey, Predicate, Store, TableKey

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)
LATEST = -1


@dataclass(frozen=True, slots=True)
class Page:
    entries: list[Entry]
    revision: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> Manifest:
        meta: Manifest = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            meta["continue"] = self.continue_token
        if self.remaining is not None:
            meta["remainingItemCount"] = self.remaining
        return meta


class Expired(ApiError):
    """410 that carries a token with which the list can be finished inconsistently."""

    def __init__(self, token: str) -> None:
        super().__init__(410, "Expired", TOO_OLD)
        self._token = token

    def to_status(self) -> Manifest:
        return {**super().to_status(), "metadata": {"continue": self._token}}


def page_of(
    store: Store, key: TableKey, namespace: str, options: ListOptions, predicate: Predicate | None
) -> Page:
    """One page of a table, as the options ask."""
    revision, items = _source(store, key, namespace, options)
    if predicate is not None:
        items = [item for item in items if predicate(item[1].obj)]
    if options.limit <= 0 or len(items) <= options.limit:
        return Page([entry for _, entry in items], revision)
    shown = items[: options.limit]
    remaining = None if predicate is not None else len(items) - len(shown)
    token = _token(revision, shown[-1][0])
    return Page([entry for _, entry in shown], revision, token, remaining)


def _source(
    store: Store, key: TableKey, namespace: str, options: ListOptions
) -> tuple[int, list[tuple[ObjectKey, Entry]]]:
    """The revision that the list shows, and the objects from which the page is cut."""
    table = store.table(key)
    if options.continue_token:
        revision, after = _parse(options.continue_token)
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        if revision == LATEST or revision == store.revision:
            return store.revision, table.in_order(namespace, after)
        if revision < table.compacted:
            raise Expired(_token(LATEST, after))
        past = table.as_of(revision)
        return revision, [i for i in past if i[0] > after and (not namespace or i[0][0] == namespace)]
    wanted = _wanted(options)
    if wanted > store.revision:
        raise _too_large(wanted, store.revision)
    if options.match == "Exact" and wanted != store.revision:
        if wanted < table.compacted:
            raise gone(f"The resourceVersion for the provided list is too old: {wanted} ({table.compacted})")
        return wanted, [item for item in table.as_of(wanted) if not namespace or item[0][0] == namespace]
    return store.revision, table.in_order(namespace)


def _wanted(options: ListOptions) -> int:
    text, match = options.resource_version, options.match
    if match not in ("", "Exact", "NotOlderThan"):
        why = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise _bad_match(why)
    if match and not text:
        raise _bad_match("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match == "Exact" and text == "0":
        raise _bad_match('Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if text and not is_number(text):
        raise bad_request(f'resourceVersion: Invalid value: "{text}": must be a whole number')
    return int(text or 0)


def _bad_match(why: str) -> ApiError:
    return invalid_options("ListOptions", "resourceVersionMatch", why)


def _too_large(wanted: int, current: int) -> ApiError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return ApiError(504, "Timeout", message, details, headers={"Retry-After": "1"})


def _token(revision: int, after: ObjectKey) -> str:
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": list(after)})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _parse(token: str) -> tuple[int, ObjectKey]:
    try:
        padded = token + "=" * (-len(token) % 4)
        value = msgspec.json.decode(base64.urlsafe_b64decode(padded))
        namespace, name = value["start"]
        return int(value["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from None
