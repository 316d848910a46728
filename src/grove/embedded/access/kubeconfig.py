"""The kubeconfig of an embedded cluster: its own file, readable by its owner only, replaced in one step.

Never merges into, and never overwrites, a kubeconfig that describes anything else.
"""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

import yaml

from grove.embedded.errors import Manifest

NAME = "embedded"


def kubeconfig(url: str, *, authority: bytes, token: str, namespace: str = "default") -> Manifest:
    """The content of a kubeconfig with one cluster, one user and one context."""
    context = {"cluster": NAME, "user": NAME, "namespace": namespace}
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": context}],
        "current-context": NAME,
        "preferences": {},
    }


def write_kubeconfig(path: Path, content: Manifest) -> None:
    """Writes the file with mode 0600, atomically; FileExistsError when it holds another cluster."""
    if path.exists() and not _is_ours(path):
        raise FileExistsError(
            f"{path} already describes another cluster; choose another file for the kubeconfig of the "
            "embedded cluster"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            yaml.safe_dump(content, file, sort_keys=False)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_ours(path: Path) -> bool:
    """Whether a file is empty or was written by an embedded cluster and by nobody since."""
    text = path.read_text(encoding="utf-8")
    if not text.strip():
        return True
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    if not isinstance(content, dict):
        return False
    entries = [
        *(content.get("clusters") or ()),
        *(content.get("users") or ()),
        *(content.get("contexts") or ()),
    ]
    return bool(entries) and all(isinstance(e, dict) and e.get("name") == NAME for e in entries)
