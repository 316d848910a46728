"""`grove upgrade plan` says what an upgrade stands on: definitions, stored versions, permissions, webhooks."""

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from grove.api.config import load
from grove.cli.doctoring import webhooks
from grove.cli.doctoring.definitions import CRDS
from grove.cli.doctoring.examination import Asked, before_upgrade, examine
from grove.cli.doctoring.findings import Finding, State
from grove.cli.upgrade import Plan
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import World, run_world

from .conftest import Grove
from .processes import kubectl, started
from .test_doctor import BINDINGS, CONFIGURATION, GROUP, NAMESPACE, by_check, deployment, install, registered

SETS = "podcliquesets.grove.io"
Change = Callable[[Manifest], None]


async def asked(world: World) -> dict[str, list[Finding]]:
    found = await before_upgrade(Asked(world.user, "https://here", virtual_clock().now))
    return by_check(found.findings)


async def redefine(world: World, *changes: Change) -> None:
    """Change the definition of sets, one write for each change."""
    for change in changes:
        living = await world.user.get(CRDS, Key("", SETS), type=dict)
        change(living)
        await world.user.replace(CRDS, living)


def found_after(*changes: Change, sets: Sequence[Manifest] = ()) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}

    async def story(world: World) -> None:
        await world.apply(*sets)
        await redefine(world, *changes)
        found.update(await asked(world))

    run_world(story, operator=False)
    return found


def broken(found: dict[str, list[Finding]]) -> int:
    """How many findings make the command end with 1."""
    return Plan([each for findings in found.values() for each in findings]).broken


def _fields(definition: Manifest) -> Manifest:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: Manifest = schema["properties"]["spec"]["properties"]
    return found


def without_a_field(definition: Manifest) -> None:
    del _fields(definition)["updateStrategy"]


def with_another_field(definition: Manifest) -> None:
    _fields(definition)["fromTheFuture"] = {"type": "string"}


def stores_another_version(definition: Manifest, name: str = "v1beta1") -> None:
    versions = definition["spec"]["versions"]
    versions[0]["storage"] = False
    versions.append({**copy.deepcopy(versions[0]), "name": name, "storage": True})


def stores_ours_again(definition: Manifest) -> None:
    first, second = definition["spec"]["versions"]
    first["storage"], second["storage"] = True, False


def test_definitions_of_this_version_are_fine() -> None:
    found = found_after()
    assert [each.state for each in found["definitions"]] == [State.OK]
    assert "stored versions" not in found
    assert broken(found) == 0


def test_older_definitions_are_a_warning_because_the_upgrade_brings_them() -> None:
    (finding,) = found_after(without_a_field)["definitions"]
    assert finding.state is State.WARNING
    assert f"{SETS} lacks spec.updateStrategy" in finding.message
    assert finding.fix == "grove crds | kubectl apply --server-side -f -"


def test_definitions_of_a_later_release_are_told_with_what_would_be_lost() -> None:
    (finding,) = found_after(with_another_field)["definitions"]
    assert finding.state is State.WARNING
    assert finding.message == f"definitions are newer than this grove: {SETS} has spec.fromTheFuture"
    assert "apply no definitions of this one" in finding.fix


def test_a_version_in_which_objects_may_be_stored_breaks_the_upgrade_and_is_told_with_the_commands() -> None:
    found = found_after(stores_another_version, stores_ours_again)
    (finding,) = found["stored versions"]
    assert finding.state is State.FAILED
    assert f"status.storedVersions of {SETS} contains v1beta1" in finding.message
    assert finding.fix == (
        f"kubectl patch crd {SETS} --subresource=status --type=merge "
        """-p '{"status":{"storedVersions":["v1alpha1"]}}'"""
    )
    assert "has version v1beta1" in found["definitions"][0].message
    assert broken(found) == 1


def test_where_there_are_objects_they_are_written_once_more_before() -> None:
    found = found_after(stores_another_version, stores_ours_again, sets=[make.cliqueset_manifest("train")])
    assert found["stored versions"][0].fix == (
        f"kubectl get {SETS} -A -o json | kubectl replace -f - && kubectl patch crd {SETS} "
        """--subresource=status --type=merge -p '{"status":{"storedVersions":["v1alpha1"]}}'"""
    )


def test_a_version_before_ours_is_left_over_and_not_newer() -> None:
    found = found_after(lambda definition: stores_another_version(definition, "v1alpha0"), stores_ours_again)
    assert found.keys() == {"stored versions", "permissions", "webhooks"}


def test_where_the_unknown_version_is_stored_now_only_a_later_release_helps() -> None:
    (finding,) = found_after(stores_another_version)["stored versions"]
    assert finding.fix == "use a release that serves v1beta1, which the cluster stores now"


def test_what_the_manifests_of_this_version_mend_is_a_warning_before_an_upgrade() -> None:
    async def story(world: World) -> None:
        await install(world)
        kind, name = webhooks.REGISTERED[0]
        await world.user.create(kind, registered(name, ""))
        doctor = by_check(await examine(Asked(world.user, "https://here", virtual_clock().now)))
        plan = await asked(world)
        assert doctor["permissions"][0].state is State.FAILED
        assert plan["permissions"][0].state is State.WARNING
        assert plan["permissions"][0].message == doctor["permissions"][0].message
        absent, trust = plan["webhooks"][:2]
        assert (absent.state, trust.state) == (State.WARNING, State.FAILED)
        assert "not registered: " in absent.message
        assert "has no caBundle" in trust.message

    run_world(story, operator=False)


def test_a_configuration_that_this_version_refuses_breaks_the_upgrade() -> None:
    async def story(world: World) -> None:
        await install(world, CONFIGURATION + "logLevel: loud\n")
        assert (await asked(world))["configuration"][0].state is State.FAILED
        given = Asked(world.user, "https://here", virtual_clock().now, configuration=load(CONFIGURATION))
        footing = await before_upgrade(given)
        assert "configuration" not in by_check(footing.findings)
        assert footing.configuration == load(CONFIGURATION)

    run_world(story, operator=False)


def test_an_account_that_may_do_everything_is_fine() -> None:
    async def story(world: World) -> None:
        await install(world)
        binding = {
            "metadata": {"name": "all"},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "grove-operator", "namespace": NAMESPACE}],
        }
        await world.user.create(BINDINGS, binding)
        assert [each.state for each in (await asked(world))["permissions"]] == [State.OK]

    run_world(story, operator=False)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster") / "kubeconfig"


def test_the_command_tells_the_findings_and_ends_with_one_if_the_upgrade_would_fail(
    kubeconfig: Path, grove: Grove
) -> None:
    folder, at = kubeconfig.parent, ("--kubeconfig", str(kubeconfig))
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=folder) as process:
        assert process.output.readline(), process.said
        fine = grove("upgrade", "plan", *at)
        (folder / "crd.json").write_text(_stored_elsewhere(kubeconfig))
        kubectl(kubeconfig, "replace", "-f", str(folder / "crd.json"))
        stored = grove("upgrade", "plan", *at, "-o", "json")
        kubectl(kubeconfig, "delete", "crd", "podgangs.scheduler.grove.io")
        gone = grove("upgrade", "plan", *at)
        process.ask_to_stop()
    assert fine.code == 0, fine.out
    assert fine.out.startswith("ok       definitions  5 kinds of Grove served")
    assert fine.err.splitlines() == [
        "grove: no PodCliqueSets found",
        "grove: 0 of 0 pods on nodes would restart",
    ]
    assert stored.code == 1
    told = json.loads(stored.out)
    assert told["items"] == []
    assert {each["check"]: each["state"] for each in told["findings"]} == {
        "definitions": "warning",
        "stored versions": "failed",
        "permissions": "ok",
        "webhooks": "ok",
    }
    assert stored.err == "grove: 0 of 0 pods on nodes would restart, 1 of 4 checks failed\n"
    assert gone.code == 1
    assert "failed   definitions  the cluster does not serve podgangs.scheduler.grove.io" in gone.out
    assert gone.err == (
        "grove: sets cannot be looked at before their definitions are there, 1 of 3 checks failed\n"
    )


KAI = "scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: kai-scheduler}\n"


def test_sets_are_judged_by_the_configuration_of_the_installation(kubeconfig: Path, grove: Grove) -> None:
    folder, at = kubeconfig.parent, ("--kubeconfig", str(kubeconfig))
    role = make.template("worker", 1)
    role["spec"]["podSpec"]["schedulerName"] = "kai-scheduler"
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "grove-operator-cm-1", "namespace": NAMESPACE},
        "data": {"config.yaml": CONFIGURATION + KAI},
    }
    before = [
        make.cliqueset_manifest("train", [role]),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    ]
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=folder) as process:
        assert process.output.readline(), process.said
        apply(kubeconfig, *before)
        alone = grove("upgrade", "plan", *at)
        apply(kubeconfig, config_map, deployment())
        installed = grove("upgrade", "plan", *at)
        process.ask_to_stop()
    assert alone.code == 1
    assert "kai-scheduler" in alone.out
    assert "would be refused" in alone.out
    assert "sets are judged by the defaults" in alone.err
    assert "would be refused" not in installed.out
    assert "judged by the defaults" not in installed.err


def apply(kubeconfig: Path, *manifests: Manifest) -> None:
    file = kubeconfig.parent / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}))
    kubectl(kubeconfig, "apply", "-f", str(file))


def _stored_elsewhere(kubeconfig: Path) -> str:
    """The definition of sets as of a release that stores them in another version."""
    definition: Manifest = json.loads(kubectl(kubeconfig, "get", "crd", SETS, "-o", "json"))
    stores_another_version(definition)
    return json.dumps(definition)
