"""What the API server itself wrote down of every write: the one history that survives its own restart.

A watch that breaks leaves a gap; the audit log does not. Versions in it are those of the answers, so that
writes of different kinds are in one order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.scene import holds_a_place

from grove.api import labels
from grove.meta import Manifest

POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse",
            "verbs": ["create", "patch"],
            "resources": [
                {"group": "", "resources": ["pods"]},
                {"group": "scheduler.grove.io", "resources": ["podgangs", "podgangs/status"]},
            ],
        },
        {"level": "Metadata", "verbs": ["delete"], "resources": [{"group": "", "resources": ["pods"]}]},
        {
            "level": "Metadata",
            "verbs": ["create", "patch", "update", "delete"],
            "resources": [
                {"group": "grove.io"},
                {"group": "scheduler.grove.io"},
                {"group": "autoscaling"},
                {"group": "", "resources": ["services"]},
            ],
        },
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit log of one API server."""

    folder: Path

    def arguments(self) -> tuple[str, ...]:
        """What makes an API server write it."""
        policy = self.folder / "policy.json"
        policy.write_text(json.dumps(POLICY), encoding="utf-8")
        return f"--audit-policy-file={policy}", f"--audit-log-path={self._log}", "--audit-log-mode=blocking"

    def writes(self, namespace: str, resource: str, subresource: str = "") -> Iterator[tuple[int, Manifest]]:
        """The writes that succeeded, each with the version that it led to."""
        for entry in self._entries(namespace, resource, subresource):
            status = entry.get("responseStatus") or {}
            version = (entry.get("responseObject") or {}).get("metadata", {}).get("resourceVersion")
            if status.get("code") in (200, 201) and version:
                yield int(version), entry

    def evicted(self, namespace: str) -> bool:
        """Whether a scheduler deleted pods: KAI does when its binder was away for a while."""
        deletions = (each for each in self._entries(namespace, "pods", "") if each["verb"] == "delete")
        return any("scheduler" in each["user"]["username"] for each in deletions)

    def unanswered(self, namespace: str, resource: str, subresource: str = "") -> Iterator[Manifest]:
        """The writes of which nobody knows what they led to: whoever made them was gone by then."""
        for entry in self._entries(namespace, resource, subresource):
            if entry["verb"] != "delete" and not (entry.get("responseObject") or {}).get("metadata"):
                yield entry

    def asked(self, namespace: str, user: str) -> list[str]:
        """What a user tried to write to a namespace, also what changed nothing."""
        targets = [(each, each.get("objectRef") or {}) for each in self._all()]
        return [
            f"{entry['verb']} {target.get('resource')}/{target.get('subresource', '')} {target.get('name')}"
            for entry, target in targets
            if target.get("namespace") == namespace and entry["user"]["username"] == user
        ]

    def entries(self, namespace: str) -> list[Manifest]:
        """Every write to a namespace that is written down, in order."""
        return [each for each in self._all() if (each.get("objectRef") or {}).get("namespace") == namespace]

    def _entries(self, namespace: str, resource: str, subresource: str) -> Iterator[Manifest]:
        for entry in self._all():
            target = entry.get("objectRef") or {}
            where = target.get("namespace"), target.get("resource"), target.get("subresource", "")
            if where == (namespace, resource, subresource):
                yield entry

    def _all(self) -> Iterator[Manifest]:
        # The server may be in the middle of a line while we read: only what a newline ends is there.
        *lines, _ = self._log.read_text(encoding="utf-8").split("\n")
        yield from map(json.loads, lines)

    @property
    def _log(self) -> Path:
        return self.folder / "audit.log"


def assert_no_gate_opened_early(audit: Audit, namespace: str, gang: str, pods: int) -> None:
    """No pod of the gang was created after one of its gates opened, and the gang was Initialized before.

    A write whose answer never reached a killed operator has no version in the log and proves nothing.
    """
    born: dict[str, int] = {}
    opened: list[int] = []
    for version, entry in audit.writes(namespace, "pods"):
        request = entry.get("requestObject")
        if entry["verb"] == "create" and isinstance(request, dict):
            if request["metadata"]["labels"].get(labels.POD_GANG) == gang and not holds_a_place(request):
                born[entry["responseObject"]["metadata"]["name"]] = version
        elif _opens(request) and entry["objectRef"]["name"].startswith(f"{gang}-"):
            opened.append(version)
    initialized = [
        version
        for version, entry in audit.writes(namespace, "podgangs", "status")
        if entry["objectRef"]["name"] == gang and _initializes(entry.get("requestObject"))
    ]
    lost = any(audit.unanswered(namespace, "pods"))
    assert len(born) <= pods, born
    assert len(opened) <= pods, opened
    assert (born and opened) or lost
    if not (born and opened):
        return
    assert max(born.values()) < min(opened)
    if not any(
        entry["objectRef"]["name"] == gang and _initializes(entry.get("requestObject"))
        for entry in audit.unanswered(namespace, "podgangs", "status")
    ):
        assert min(initialized, default=0) < min(opened)


def _opens(patch: object) -> bool:
    """Whether a JSON patch takes a scheduling gate away."""
    return isinstance(patch, list) and any(
        step.get("op") == "remove" and step.get("path", "").startswith("/spec/schedulingGates")
        for step in patch
    )


def _initializes(patch: object) -> bool:
    status = patch.get("status") if isinstance(patch, dict) else None
    listed = (status or {}).get("conditions") or ()
    return any(each.get("type") == "Initialized" and each.get("status") == "True" for each in listed)
