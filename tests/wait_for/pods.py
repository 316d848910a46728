"""Pods as the API server sends them, as far as the program reads them."""

from typing import Any


def pod(
    name: str, clique: str, *, ready: bool = True, going: bool = False, version: str = "1"
) -> dict[str, Any]:
    """A pod of a clique of gang `llm-0`."""
    metadata: dict[str, Any] = {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": version,
        "labels": {"grove.io/podgang": "llm-0", "grove.io/podclique": clique},
    }
    if going:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    status = "True" if ready else "False"
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": status}]}}


def listed(*pods: dict[str, Any], version: str = "10", more: str = "") -> dict[str, Any]:
    """An answer to a list."""
    return {"metadata": {"resourceVersion": version, "continue": more}, "items": list(pods)}


def event(type: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": type, "object": item}


def bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


def error(code: int, message: str = "") -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": code, "message": message})
