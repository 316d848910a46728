"""Runs Grove's waiting program in a simulated container: the program itself, in this process.

It gets what a kubelet gives it: its arguments, the files of its volumes, and a client that is the service
account whose token is among them. What it says goes into the container's log.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Protocol, cast

from grove.embedded.actors.objects import annotations_of, key_of, labels_of, uid_of
from grove.embedded.actors.token_secrets import ACCOUNT, SECRETS
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient
from grove.wait_for.arguments import CREDENTIALS, POD_INFO, BadArgument, parents_of
from grove.wait_for.program import Ask, Pause, Program

#: The container in which the program runs, whatever its image is called.
CONTAINER = "grove-initc"
_LABEL = re.compile(r"metadata\.labels\['([^']+)'\]")
_FLAG = "--podcliques="

#: Opens a client that is the service account of a pod.
Accounts = Callable[[Manifest], AbstractAsyncContextManager[ActorClient]]

#: Runs the program of a pod's container to its end and returns its last words; passes on what it says.
#: Raises BadArgument for what ends it with 1.
Wait = Callable[[Manifest, Manifest, Callable[[str], None]], Coroutine[object, object, str]]


def always(client: ActorClient) -> Accounts:
    """The same client for every pod, where the server does not know service accounts."""

    @asynccontextmanager
    async def of(pod: Manifest) -> AsyncIterator[ActorClient]:
        yield client

    return of


class Issuer(Protocol):
    """Whoever can make a client that is a service account."""

    def account(self, namespace: str, name: str) -> AbstractAsyncContextManager[ActorClient]: ...


def issued_by(issuer: Issuer) -> Accounts:
    """For every pod a client that is its own service account."""
    return lambda pod: issuer.account(key_of(pod)[0], account_of(pod))


def account_of(pod: Manifest) -> str:
    """The name of a pod's service account."""
    return str(pod["spec"].get("serviceAccountName") or "default")


async def account_in_use(pod: Manifest, client: ActorClient) -> str:
    """The service account whose token the program finds: that of a Secret, or else the pod's own."""
    secret = _mounted_secret(pod)
    if not secret:
        return account_of(pod)
    try:
        found = await client.get(SECRETS.path((key_of(pod)[0], secret)))
    except ApiError as error:
        raise BadArgument(f"the Secret {secret} cannot be mounted: {error.message}") from None
    return annotations_of(found).get(ACCOUNT, "")


def _mounted_secret(pod: Manifest) -> str:
    """The Secret at the place of a token in the program's container, as the Go operator mounts it."""
    secrets = {
        volume["name"]: str(volume["secret"].get("secretName", ""))
        for volume in pod["spec"].get("volumes") or ()
        if volume.get("secret")
    }
    for container in pod["spec"].get("initContainers") or ():
        for mount in container.get("volumeMounts") or () if container.get("name") == CONTAINER else ():
            if mount.get("mountPath") == CREDENTIALS and mount.get("name") in secrets:
                return secrets[mount["name"]]
    return ""


def in_process(accounts: Accounts) -> Wait:
    """Runs it in this event loop, with the clients that `accounts` opens."""
    return lambda pod, container, tell: _wait(pod, container, accounts, tell)


async def _wait(pod: Manifest, container: Manifest, accounts: Accounts, tell: Callable[[str], None]) -> str:
    facts = _files(pod, container, POD_INFO)
    if "token" not in _files(pod, container, CREDENTIALS):
        raise BadArgument(f"there is no token in {CREDENTIALS}")
    for name in ("namespace", "podgangname"):
        if not facts.get(name):
            raise BadArgument(f"failed to read {POD_INFO}/{name}")
    flags = [flag for flag in container.get("args") or () if flag.startswith(_FLAG)]
    program = Program(
        parents_of(flag.removeprefix(_FLAG) for flag in flags),
        namespace=facts["namespace"],
        gang=facts["podgangname"],
        chance=random.Random(f"{uid_of(pod)}/{'/'.join(key_of(pod))}").random,
    )
    async with accounts(pod) as client:
        await _run(program, client, tell)
    return program.sentence


async def _run(program: Program, client: ActorClient, tell: Callable[[str], None]) -> None:
    while (step := program.next_step()) is not None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            continue
        try:
            await _ask(step, program, client, tell)
        except ApiError as error:
            program.refused(error.status, error.message)
        except (OSError, TimeoutError) as error:
            program.unreachable(str(error) or type(error).__name__)
        tell(program.sentence)


async def _ask(step: Ask, program: Program, client: ActorClient, tell: Callable[[str], None]) -> None:
    if not step.watch:
        program.listed(await client.list(step.path, **step.query))
        return
    told = False
    query = {name: value for name, value in step.query.items() if name != "watch"}
    async with aclosing(cast(Any, client.watch(step.path, **query))) as stream:
        async for event in stream:
            told = True
            program.saw(event)
            tell(program.sentence)
            if program.finished:
                return
    program.ended(told=told)


def _files(pod: Manifest, container: Manifest, folder: str) -> dict[str, str]:
    """What a container finds in a folder: of downward APIs and projected volumes, as a kubelet fills them."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    found: dict[str, str] = {}
    for mount in container.get("volumeMounts") or ():
        if mount.get("mountPath") == folder:
            volume = volumes.get(mount["name"]) or {}
            sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
            for source in sources:
                found |= _projected(pod, source)
    return found


def _projected(pod: Manifest, source: Manifest) -> dict[str, str]:
    if token := source.get("serviceAccountToken"):
        return {token["path"]: account_of(pod)}
    if source.get("secret"):
        return {"token": str(source["secret"].get("secretName", ""))}
    items = (source.get("downwardAPI") or {}).get("items") or ()
    return {item["path"]: _fact(pod, item["fieldRef"]["fieldPath"]) for item in items if "fieldRef" in item}


def _fact(pod: Manifest, field: str) -> str:
    if label := _LABEL.fullmatch(field):
        return labels_of(pod).get(label[1], "")
    return key_of(pod)[0] if field == "metadata.namespace" else ""
