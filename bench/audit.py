"""What the operator wrote on a real control plane, from the API server's own audit log.

The log holds one line of metadata for each answered write of the operator's user and nothing of anybody else,
so that it costs the API server next to nothing.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.writes import is_question
from grove.meta import Manifest

#: Who the operator is: the account of deploy/rbac.yaml, with exactly its permissions.
OPERATOR: Final = "system:serviceaccount:grove-system:grove-operator"
OPERATOR_GROUPS: Final = (
    "system:serviceaccounts",
    "system:serviceaccounts:grove-system",
    "system:authenticated",
)
_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "users": [OPERATOR],
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
        },
        {"level": "None"},
    ],
}
#: More than any run writes: a log that is rotated would lose the count.
_MEGABYTES: Final = 4000


@dataclass(slots=True)
class AuditLog:
    """The log of one API server, read on from where it was last read."""

    folder: Path
    _counts: Counter[str] = field(default_factory=Counter)
    _read: int = 0

    @property
    def file(self) -> Path:
        return self.folder / "audit.log"

    def arguments(self) -> tuple[str, ...]:
        """What makes an API server write it, each line before the answer to the request is complete."""
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(_POLICY), encoding="utf-8")
        return (
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.file}",
            f"--audit-log-maxsize={_MEGABYTES}",
            "--audit-log-mode=blocking",
        )

    def writes(self) -> dict[str, int]:
        """What was written since it was last forgotten, by verb and resource, and what was refused."""
        if self.file.exists():
            with self.file.open("rb") as log:
                log.seek(self._read)
                content, _, _ = log.read().rpartition(b"\n")
            # What follows the last line break is a line that is being written.
            self._read += len(content) + 1 if content else 0
            self._counts.update(name for line in content.splitlines() if (name := counted(json.loads(line))))
        return dict(self._counts)

    def forget(self) -> None:
        """Count from here."""
        self.writes()
        self._counts.clear()


def counted(entry: Manifest) -> str:
    """What one entry counts as; "" for questions and dry runs, which store nothing."""
    target = entry.get("objectRef") or {}
    group, subresource = target.get("apiGroup", ""), target.get("subresource", "")
    resource = ".".join(part for part in (target.get("resource", ""), group) if part)
    if is_question(resource) or "dryRun=" in entry.get("requestURI", ""):
        return ""
    if (entry.get("responseStatus") or {}).get("code", 0) >= 400:
        return "refused"
    return f"{entry['verb']} {resource}/{subresource}" if subresource else f"{entry['verb']} {resource}"
