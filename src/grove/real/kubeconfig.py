"""The kubeconfig of one user of a real control plane: complete in itself and readable by its owner only.

Never merges into a file and never overwrites one that describes anything else.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from grove.meta import Manifest
from grove.real.certificates import Pair, write_private

NAME = "grove-real"


def content(url: str, *, authority: bytes, user: Pair) -> Manifest:
    """One cluster, one user, one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": NAME, "cluster": {"server": url, "certificate-authority-data": _text(authority)}}
        ],
        "users": [
            {
                "name": NAME,
                "user": {
                    "client-certificate-data": _text(user.certificate),
                    "client-key-data": _text(user.key),
                },
            }
        ],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }


def write(path: Path, config: Manifest) -> Path:
    """Writes the file in one step; FileExistsError when something else is there."""
    if path.exists() and not _is_ours(path):
        raise FileExistsError(
            f"{path} describes another cluster or is no kubeconfig; choose another file for the kubeconfig "
            "of the control plane"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # JSON is YAML, and every client reads it.
    fresh = write_private(path.with_name(f".{path.name}.new"), json.dumps(config, indent=2).encode() + b"\n")
    return fresh.replace(path)


def _is_ours(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.strip():
        return True
    try:
        config = json.loads(text)
    except ValueError:
        return False
    return isinstance(config, dict) and config.get("current-context") == NAME


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
