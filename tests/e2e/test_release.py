"""The life of a release on a real control plane of each minor: from `helm install` until nothing is left of it.

Its webhooks are on, it is for all five schedulers, and those of them that were asked for and run on the minor
place a set each. Of the others a set says that they are not there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from tests.cli.processes import Process, kubectl
from tests.deploy.helm import EXAMPLES, FOUND, MISSING, NAMESPACE, RELEASE, come_back_and_go, older
from tests.e2e.conftest import asked, asked_beside
from tests.e2e.judges import MINORS
from tests.e2e.mistakes import BY_THE_API_SERVER, MISTAKES, edited
from tests.e2e.plane import OPERATOR
from tests.e2e.released import SENTENCE, Guarded, bad_set, fingerprints, guarded, until
from tests.e2e.scene import role, train

from grove.api import kinds
from grove.cli.manifests.installation import desired_installation
from grove.cli.manifests.values import values_from
from grove.errors import ApiError, Invalid
from grove.kube import config
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest
from grove.webhook.certificates.material import SECRETS, desired_secret, material_of
from grove.webhook.certificates.plan import Situation, plan_material
from grove.webhook.certificates.provision import server_names

pytestmark = [pytest.mark.real, pytest.mark.skipif(FOUND is None, reason=MISSING)]

SECRET: Final = Key(NAMESPACE, "grove-webhook-server-cert")
#: The garbage collector learns of definitions, and of their end, every half minute.
COLLECTED_SECONDS: Final = 150
#: What is said of a set whose scheduler is not there: by kubectl at once, and by its gang.
ABSENT: Final = {
    "kai": (
        "Warning: scheduler backend kai waits for podgroups.scheduling.run.ai in scheduling.run.ai/v2alpha2; "
        "install KAI",
        "the cluster does not serve podgroups.scheduling.run.ai in scheduling.run.ai/v2alpha2; install KAI",
    ),
    "koordinator": (
        "Warning: scheduler backend koordinator waits: the cluster does not serve "
        "podgroups.scheduling.sigs.k8s.io in scheduling.sigs.k8s.io/v1alpha1; install Koordinator",
        "the cluster does not serve podgroups.scheduling.sigs.k8s.io in scheduling.sigs.k8s.io/v1alpha1; "
        "install Koordinator",
    ),
    "volcano": (
        "Warning: scheduler backend volcano waits for podgroups.scheduling.volcano.sh in "
        "scheduling.volcano.sh/v1beta1; install Volcano",
        "the cluster does not serve podgroups.scheduling.volcano.sh in scheduling.volcano.sh/v1beta1; "
        "install Volcano",
    ),
    # It has no kinds by which anybody could know that it is there.
    "yunikorn": ("", "0 of 3 pods placed; the scheduler has not decided yet."),
}


@pytest.mark.parametrize("minor", MINORS)
def test_a_release_lives_its_whole_life_with_every_scheduler_and_leaves_nothing(
    minor: str, tmp_path: Path
) -> None:
    judges = [asked(minor), *asked_beside(minor)]
    with guarded(tmp_path, judges) as (release, runner, log):
        everything_is_valid(release.kubeconfig, tmp_path)
        release.install(older(tmp_path / "older"))
        with release.operator() as process:
            sets_run_with_every_scheduler(release, process)
            bindings, running = release.bindings(), release.pods()
            bad_sets_are_refused(release)
            load = runner.run(under_load(release, process))
            assert load.failed == []
            assert min(load.admitted, load.refused) > 20
            assert release.pods() == running
            release.upgrade("--set", "keepWorkloads=true")
        come_back_and_go(release)
        release.until_nothing_is_left(COLLECTED_SECONDS)
        assert release.operators == 2
        assert log.refused() == []
        assert log.beyond(bindings) == []
        assert log.accounts() == {OPERATOR}
        assert log.hindered() == []


def everything_is_valid(kubeconfig: Path, folder: Path) -> None:
    """A real API server takes every object of an installation without a field too many."""
    values = values_from({"keepWorkloads": True, "config": {"authorizer": {"enabled": True}}})
    objects = desired_installation(values, NAMESPACE)
    file = folder / "everything.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    ways = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = kubectl(kubeconfig, "apply", *ways, "-f", str(file))
    assert len(said.splitlines()) == len(objects)


def sets_run_with_every_scheduler(release: Guarded, process: Process) -> None:
    """As far as schedulers are there; of the others kubectl says that, and the gang."""
    release.run_sets()
    assert release.schedulers() == {SCHEDULERS[each] for each in release.backends}
    for backend in release.absent:
        warning, sentence = ABSENT[backend]
        assert release.apply(EXAMPLES[backend].path).startswith(warning)
        gang = EXAMPLES[backend].gang
        until(
            lambda gang=gang, sentence=sentence: release.says(gang).startswith(sentence),  # type: ignore[misc]
            f"{gang} says what is missing",
            process,
        )
    assert release.schedulers() == {SCHEDULERS[each] for each in release.backends}


#: How pods name them.
SCHEDULERS: Final = {
    "default": "default-scheduler",
    "kai": "kai-scheduler",
    "koordinator": "koord-scheduler",
    "volcano": "volcano",
    "yunikorn": "yunikorn",
}


def bad_sets_are_refused(release: Guarded) -> None:
    for mistake in MISTAKES.values():
        assert release.refused(mistake.manifest(), "apply") == mistake.answer
    for edits, answer in BY_THE_API_SERVER.values():
        assert release.refused(edited(edits), "apply") == answer
    assert "llm" not in kubectl(release.kubeconfig, "get", "podcliquesets", "-o", "name")


@dataclass
class Load:
    """Sets that are written all the time, as dry runs: good ones, and ones that must be refused."""

    client: Client
    admitted: int = 0
    refused: int = 0
    failed: list[str] = field(default_factory=list)

    async def run(self) -> None:
        good = train(role("worker", 1), name="good")
        good = {**good, "metadata": {"name": "good", "namespace": "default"}}
        while True:
            try:
                await self.client.create(kinds.CLIQUESETS, good, dry_run=True)
                self.admitted += 1
            except ApiError as error:
                self.failed.append(str(error))
            try:
                await self.client.create(kinds.CLIQUESETS, bad_set(), dry_run=True)
                self.failed.append("a bad set was admitted")
            except Invalid:
                self.refused += 1
            except ApiError as error:
                self.failed.append(str(error))
            await asyncio.sleep(0.05)


async def under_load(release: Guarded, process: Process) -> Load:
    """Exchange the authority, upgrade and roll back while sets are written; what the load met."""
    transport = HttpTransport(config.load(str(release.kubeconfig)))
    client = Client(transport, limiter=Limiter.off(), user_agent="load")
    load = Load(client)
    running = asyncio.create_task(load.run())
    try:
        await exchange_upgrade_and_roll_back(release, client, process)
    finally:
        running.cancel()
        await asyncio.wait({running})
        await client.close()
    return load


async def exchange_upgrade_and_roll_back(release: Guarded, client: Client, process: Process) -> None:
    """Delete the Secret, as the guide says; what takes a day is written as a replica would that waited so long."""

    async def soon(holds: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(until, holds, what, process)

    old: Manifest = await client.get(SECRETS, SECRET, type=dict)
    first, served = fingerprints(material_of(old)), await asyncio.to_thread(release.served)
    assert len(first) == 1
    await client.delete(SECRETS, SECRET)
    await soon(lambda: all(len(each) == 2 and first < each for each in release.trusted()), "both are trusted")
    both = (await asyncio.to_thread(release.trusted))[0]
    assert await asyncio.to_thread(release.served) == served
    await asyncio.to_thread(release.upgrade, "--set", "podAnnotations.upgraded=yes")
    assert await asyncio.to_thread(release.gang_names) == ["pg"]
    await soon(lambda: all(each == both for each in release.trusted()), "an upgrade leaves them trusted")
    await _written(client, datetime.now(UTC), both)
    await soon(lambda: release.served() != served, "the new one has signed what is served")
    await _written(client, datetime.now(UTC) + timedelta(days=2), both)
    await soon(lambda: all(each == both - first for each in release.trusted()), "the old one is dropped")
    await asyncio.to_thread(release.helm, "rollback", RELEASE, "1")
    assert await asyncio.to_thread(release.gang_names) == ["formerpg"]
    await soon(
        lambda: all(each == both - first for each in release.trusted()), "a rollback leaves it trusted"
    )
    await soon(lambda: SENTENCE in release.refusal(), "a bad set is refused with the sentence")


async def _written(client: Client, now: datetime, trusted: set[str]) -> None:
    found: Manifest = await client.get(SECRETS, SECRET, type=dict)
    names, known = server_names(NAMESPACE), frozenset(trusted)
    seen = Situation(now, names, material_of(found), present=known, trusted=known)
    await client.replace(SECRETS, desired_secret(SECRET, plan_material(seen).material, found))
