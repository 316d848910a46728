"""Objects as lines: their names for other commands, or a table of what and where they are. Pure."""

from collections.abc import Iterable, Sequence

from grove.cli.talk import Form, Format, dumped
from grove.meta import Manifest


def name_of(kind: str, api_version: str, name: str) -> str:
    """What kubectl calls an object: `podgang.scheduler.grove.io/train-0`."""
    group, _, _ = api_version.rpartition("/")
    return f"{kind.lower()}.{group}/{name}" if group else f"{kind.lower()}/{name}"


def printed(manifests: Sequence[Manifest], output: Form) -> str:
    """Objects as they were asked for: YAML has one document for each, JSON is one List."""
    if output is Form.NAME:
        return names(manifests)
    if output is Form.WIDE:
        return table(manifests)
    if output is Form.JSON:
        return dumped({"apiVersion": "v1", "kind": "List", "items": manifests}, Format.JSON)
    return "---\n".join(dumped(each, Format.YAML) for each in manifests)


def names(manifests: Iterable[Manifest]) -> str:
    """One name a line."""
    return "\n".join(name_of(each["kind"], each["apiVersion"], _metadata(each, "name")) for each in manifests)


def table(manifests: Iterable[Manifest]) -> str:
    """Namespace, kind, name and version of each object."""
    rows = [
        (_metadata(each, "namespace") or "-", each["kind"], _metadata(each, "name"), each["apiVersion"])
        for each in manifests
    ]
    return aligned([("NAMESPACE", "KIND", "NAME", "APIVERSION"), *rows])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "   ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _metadata(manifest: Manifest, field: str) -> str:
    metadata = manifest.get("metadata") or {}
    return str(metadata.get(field) or (metadata.get("generateName", "") if field == "name" else ""))
