"""Runs Grove's waiting program as a process of its own, as a kubelet does: with the files of its pod's volumes.

The token is asked for as the pod's volume says, for the pod's own service account and bound to the pod; the
authority is what the cluster publishes in the pod's namespace. Nothing but these files is told to the program.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from grove.embedded.actors.waiting import account_of
from grove.embedded.remote import RemoteClient
from grove.meta import Manifest
from grove.real.child import dies_with_parent
from grove.wait_for.arguments import CREDENTIALS, POD_INFO, BadArgument

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
_LABEL: Final = re.compile(r"metadata\.labels\['([^']+)'\]")


class Processes:
    """Starts the program for every pod that has it; `client` asks for what a kubelet asks for."""

    def __init__(self, client: RemoteClient, server: str) -> None:
        self._client = client
        self._server = urlsplit(server)
        self._said = asyncio.Event()

    async def until_said(self, holds: Callable[[], bool], *, seconds: float) -> None:
        """Returns as soon as something holds; looks whenever a program said something."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._said.clear()
                await self._said.wait()

    async def wait(self, pod: Manifest, container: Manifest, tell: Callable[[str], None]) -> str:
        """Run it to its end; the message that it leaves."""
        with tempfile.TemporaryDirectory(prefix="grove-pod-") as folder:
            root = Path(folder)
            places = {path: root / str(number) for number, path in enumerate((POD_INFO, CREDENTIALS))}
            for path, place in places.items():
                place.mkdir()
                for name, content in (await self._files(pod, container, path)).items():
                    (place / name).write_text(content, encoding="utf-8")
            message = root / "message"
            message.touch()
            flags = [
                *(container.get("args") or ()),
                f"--pod-info={places[POD_INFO]}",
                f"--credentials={places[CREDENTIALS]}",
                f"--termination-message={message}",
            ]
            code = await self._run(flags, tell)
            words = message.read_text(encoding="utf-8")
        if code != 0:
            raise BadArgument(f"it ended with {code}: {words}")
        return words

    async def _run(self, flags: list[str], tell: Callable[[str], None]) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # As in its image: nothing but the standard library.
            *("-S", "-m", "grove.wait_for", *flags),
            stderr=subprocess.PIPE,
            env={
                "PYTHONPATH": str(SOURCE),
                "PATH": os.environ.get("PATH", ""),
                "KUBERNETES_SERVICE_HOST": self._server.hostname or "",
                "KUBERNETES_SERVICE_PORT": str(self._server.port or 443),
            },
            preexec_fn=dies_with_parent(),
        )
        assert process.stderr is not None
        try:
            async for line in process.stderr:
                tell(_sentence(line))
                self._said.set()
            return await process.wait()
        finally:
            if process.returncode is None:
                # The pod goes.
                process.kill()
                await process.wait()

    async def _files(self, pod: Manifest, container: Manifest, folder: str) -> dict[str, str]:
        """What the volume that is mounted in a folder holds; the last mount at a path counts."""
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts") or ()}
        volume = volumes.get(mounts.get(folder, ""), {})
        found: dict[str, str] = {}
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            found |= await self._source(pod, source)
        return found

    async def _source(self, pod: Manifest, source: Manifest) -> dict[str, str]:
        namespace = pod["metadata"]["namespace"]
        if wanted := source.get("serviceAccountToken"):
            return {wanted["path"]: await self._token(pod, wanted)}
        if wanted := source.get("configMap"):
            path = f"/api/v1/namespaces/{namespace}/configmaps/{wanted['name']}"
            data = (await self._client.get(path)).get("data") or {}
            return {item["path"]: data[item["key"]] for item in wanted["items"]}
        items = (source.get("downwardAPI") or {}).get("items") or ()
        return {item["path"]: _fact(pod, item["fieldRef"]["fieldPath"]) for item in items}

    async def _token(self, pod: Manifest, wanted: Manifest) -> str:
        metadata = pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        spec = {"expirationSeconds": wanted["expirationSeconds"], "boundObjectRef": bound}
        account = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account_of(pod)}"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self._client.create(f"{account}/token", request))["status"]["token"])


def _fact(pod: Manifest, field: str) -> str:
    if label := _LABEL.fullmatch(field):
        return str((pod["metadata"].get("labels") or {}).get(label[1], ""))
    return str(pod["metadata"][field.removeprefix("metadata.")])


def _sentence(line: bytes) -> str:
    """What a line of the log says; what is no line of the log is an error that nobody expected."""
    try:
        return str(json.loads(line)["msg"])
    except (ValueError, KeyError, TypeError):
        return line.decode(errors="replace").rstrip()
