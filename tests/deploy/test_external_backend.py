"""The manifests of a backend with a deployment of its own: its roles are enough, and no more than that."""

import asyncio
import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml
from tests.cli.processes import KUBECTL
from tests.deploy.test_rbac import (
    CLUSTER_SCOPED,
    DEPLOY,
    MINORS,
    NAMESPACE,
    OPTIONAL,
    Grant,
    asked,
    configuration,
    granted,
    install,
    required,
    start,
)
from tests.deploy.test_rbac import options as operator_options

from grove.api import kinds
from grove.api.config import OperatorConfiguration
from grove.assembly import Operator, assemble
from grove.cli.operating import observed, written
from grove.cli.permissions import needed
from grove.embedded.access.authentication import service_account_user
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.meta import Key, Manifest, resource
from grove.testing import make
from grove.testing.memory import MemoryTransport
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import World, WorldOptions, run_world

FOLDER: Final = DEPLOY / "external-backend"
ACCOUNT: Final = service_account_user(NAMESPACE, "grove-backend")


def external() -> OperatorConfiguration:
    """The configuration of deploy/ with kai left to a process of its own."""
    found = configuration()
    profiles = tuple(
        msgspec.structs.replace(each, external=each.name.startswith("kai"))
        for each in found.scheduler.profiles
    )
    scheduler = msgspec.structs.replace(found.scheduler, profiles=profiles)
    return msgspec.structs.replace(found, scheduler=scheduler)


def options(minor: str) -> WorldOptions:
    import dataclasses

    return dataclasses.replace(operator_options(minor), configuration=external())


def documents() -> list[Manifest]:
    return list(yaml.safe_load_all((FOLDER / "rbac.yaml").read_text()))


async def grant(world: World) -> None:
    await install(world)
    for each in documents():
        group, _, version = each["apiVersion"].rpartition("/")
        kind = resource(group, version, each["kind"], namespaced=each["kind"] not in CLUSTER_SCOPED)
        await world.user.create(kind, each)


@asynccontextmanager
async def backend(world: World) -> AsyncIterator[Operator]:
    """`grove backend run kai` with the account of the manifests."""
    transport = MemoryTransport(world.cluster.app, ACCOUNT)
    client = Client(transport, limiter=Limiter.off())
    rng = random.Random(1)
    process = await assemble(client, external(), clock=virtual_clock(), rng=rng, health=False, only="kai")
    task = asyncio.create_task(process.manager.run())
    try:
        yield process
    finally:
        await transport.close()
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()


def test_the_roles_grant_exactly_what_the_process_asks_for() -> None:
    want: set[Grant] = set()

    async def look(world: World) -> None:
        await grant(world)
        async with backend(world) as process:
            scheduling = process.scheduling
            needs = needed(
                external(),
                written(scheduling),
                namespace=NAMESPACE,
                observed=observed(scheduling),
                reads_events=bool(scheduling.event_sources()),
                only="kai",
            )
            want.update(asked(needs))

    for minor in MINORS:
        run_world(look, options(minor), operator=False)
    assert required(documents()) == sorted(want)
    assert {each[:4] for each in granted(documents())} >= set(OPTIONAL)


def test_a_gang_comes_runs_and_goes_and_the_process_is_refused_nothing() -> None:
    async def story(world: World) -> None:
        await grant(world)
        await start(world)
        async with backend(world):
            roles = [make.template("worker", 2, pod={"schedulerName": "kai-scheduler"})]
            await world.apply(make.cliqueset_manifest("train", roles))

            async def running() -> bool:
                return await world.phase("train-0") == "Running"

            await world.until(running, "the gang runs")
            await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))

            async def gone() -> bool:
                return not await world.pods() and not await world.all(kinds.GANGS)

            await world.until(gone, "everything is gone")
            asked_by = [each for each in world.cluster.requests if each.user == ACCOUNT.name]
            assert asked_by
            assert [f"{each.method} {each.path}" for each in asked_by if each.status == 403] == []

    run_world(story, options("1.36"), operator=False)


def test_kustomize_adds_it_to_the_operator_with_the_same_configuration(tmp_path: Path) -> None:
    if not KUBECTL.exists():
        pytest.skip("kubectl is not installed")
    top = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    top["components"] = ["external-backend"]
    for file in [*DEPLOY.glob("*.yaml"), *FOLDER.glob("*.yaml")]:
        target = tmp_path / file.relative_to(DEPLOY)
        target.parent.mkdir(exist_ok=True)
        target.write_text(file.read_text())
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(top))
    ran = subprocess.run([KUBECTL, "kustomize", tmp_path], capture_output=True, text=True, check=True)
    deployments = [each for each in yaml.safe_load_all(ran.stdout) if each["kind"] == "Deployment"]
    specs = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in deployments}
    assert set(specs) == {"grove-operator", "grove-backend-kai"}
    assert len({str(each["volumes"][0]) for each in specs.values()}) == 1
    assert specs["grove-backend-kai"]["containers"][0]["command"][1:] == ["backend", "run", "kai"]
