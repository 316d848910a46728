"""The JSON patch that turns one manifest into another which says more. Pure."""

from collections.abc import Iterator

from grove.meta import Manifest


def patch_between(old: object, new: object, path: str = "") -> Iterator[Manifest]:
    """The operations that add or replace what differs; nothing is removed, lists keep their length."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in new.items():
            at = f"{path}/{_escaped(str(name))}"
            if old.get(name) is None and value is not None:
                yield {"op": "add", "path": at, "value": value}
            else:
                yield from patch_between(old.get(name), value, at)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from patch_between(before, after, f"{path}/{index}")
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
