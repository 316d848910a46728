"""The manifests in deploy/ grant what the operator needs, all of it and nothing else."""

import asyncio
import copy
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest
import yaml

from grove.api import kinds
from grove.api.config import OperatorConfiguration, load
from grove.assembly import Operator
from grove.cli.connect import Reached
from grove.cli.manifests.access import LEASE_ROLE, desired_access
from grove.cli.manifests.values import values_from
from grove.cli.operating import observed, operator_for, written
from grove.cli.permissions import LEASES, Need, needed
from grove.embedded.access.authentication import service_account_user
from grove.errors import Forbidden
from grove.kube.client import Client
from grove.kube.config import Connection
from grove.kube.limiter import Limiter
from grove.meta import Key, Manifest, resource
from grove.testing import make
from grove.testing.memory import MemoryTransport
from grove.testing.world import World, WorldOptions, run_world

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
MINORS: Final = ("1.35", "1.36", "1.37")
NAMESPACE: Final = "grove-system"
ACCOUNT: Final = service_account_user(NAMESPACE, "grove-operator")
NAMESPACES: Final = resource("", "v1", "Namespace", namespaced=False)
CLUSTER_ROLES: Final = resource("rbac.authorization.k8s.io", "v1", "ClusterRole", namespaced=False)
CLUSTER_SCOPED: Final = ("ClusterRole", "ClusterRoleBinding")
#: Asked for only if it may be had: the operator works without it.
OPTIONAL: Final = (
    ("get", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("list", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("watch", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("list", "", "configmaps", ""),
    ("watch", "", "configmaps", ""),
)
#: Schedulers by the name of their profile, and what the test cluster calls them.
SCHEDULERS: Final = {
    "default-scheduler": "default",
    "kai-scheduler": "kai",
    "koord-scheduler": "koordinator",
    "volcano": "volcano",
    "yunikorn": "yunikorn",
}


class Grant(NamedTuple):
    """One verb on one resource; the namespace is blank when it holds everywhere, the name when for every object."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str = ""


def documents() -> list[Manifest]:
    return list(yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()))


def document(kind: str) -> Manifest:
    (found,) = [each for each in documents() if each["kind"] == kind]
    return found


def configuration() -> OperatorConfiguration:
    """The configuration in deploy/, with the namespace that a pod would find by itself."""
    found = load((DEPLOY / "config.yaml").read_text())
    election = msgspec.structs.replace(found.leader_election, resource_namespace=NAMESPACE)
    return msgspec.structs.replace(found, leader_election=election)


def options(minor: str) -> WorldOptions:
    others = ("kai", "koordinator", "volcano", "yunikorn")
    return WorldOptions(
        kubernetes=minor,
        schedulers=others,
        operator_user=ACCOUNT,
        configuration=configuration(),
    )


def granted(manifests: Iterable[Manifest]) -> list[Grant]:
    """Everything that roles allow, expanded."""
    return [
        Grant(verb, group, each, role["metadata"].get("namespace", ""), name)
        for role in manifests
        if role["kind"] in ("ClusterRole", "Role")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for each in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


def required(manifests: Iterable[Manifest]) -> list[Grant]:
    """What roles allow without which the operator would not work."""
    return sorted({each for each in granted(manifests) if each[:4] not in OPTIONAL})


def asked(needs: Iterable[Need]) -> Iterator[Grant]:
    for need in needs:
        plural = need.resource.plural
        whole = f"{plural}/{need.subresource}" if need.subresource else plural
        yield Grant(need.verb, need.resource.gvk.group, whole, need.namespace, need.name)


async def install(world: World, manifests: Sequence[Manifest] = ()) -> None:
    """What an installation does about permissions; by default what `kubectl apply -k deploy` does."""
    await world.user.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    for each in manifests or documents():
        group, _, version = each["apiVersion"].rpartition("/")
        kind = resource(group, version, each["kind"], namespaced=each["kind"] not in CLUSTER_SCOPED)
        await world.user.create(kind, each)


def with_domains() -> Sequence[Manifest]:
    """What an installation grants that makes NVLink domains."""
    return desired_access(values_from({"config": {"network": {"autoMNNVLEnabled": True}}}), NAMESPACE)


async def start(world: World) -> Operator:
    """Start the operator; one that may not list what it caches would never begin to work."""
    async with asyncio.timeout(60):
        return await world.start_operator()


def refusals(world: World) -> list[str]:
    """What the API server did not let the operator do."""
    return [
        f"{entry.method} {entry.path}"
        for entry in world.cluster.requests
        if entry.user == ACCOUNT.name and entry.status == 403
    ]


@pytest.mark.parametrize(
    ("profiles", "nvlink"),
    [(tuple(SCHEDULERS), False), *(((each,), False) for each in SCHEDULERS), (("default-scheduler",), True)],
    ids=["every scheduler", *SCHEDULERS, "NVLink domains"],
)
def test_the_roles_grant_exactly_what_an_operator_so_configured_asks_for(
    profiles: tuple[str, ...], nvlink: bool
) -> None:
    config = {
        "scheduler": {"profiles": [{"name": each} for each in profiles]},
        "network": {"autoMNNVLEnabled": nvlink},
    }
    values = values_from({"config": config})
    manifests = desired_access(values, NAMESPACE)
    election = msgspec.structs.replace(values.configuration.leader_election, resource_namespace=NAMESPACE)
    chosen = msgspec.structs.replace(values.configuration, leader_election=election)
    want: set[Grant] = set()

    async def look(world: World) -> None:
        await install(world, manifests)
        operator = await start(world)
        needs = needed(
            chosen,
            written(operator.scheduling),
            namespace=NAMESPACE,
            observed=observed(operator.scheduling),
            reads_events=bool(operator.scheduling.event_sources()),
            serves=lambda each: nvlink or each != kinds.COMPUTE_DOMAINS,
        )
        want.update(asked(needs))
        assert refusals(world) == []

    for minor in MINORS:
        run_world(look, dataclasses.replace(options(minor), configuration=chosen), operator=False)
    assert required(manifests) == sorted(want)


def test_the_manifests_for_kustomize_grant_what_an_installation_by_default_does() -> None:
    assert sorted(granted(documents())) == sorted(granted(desired_access(values_from(), NAMESPACE)))


def test_no_secret_can_be_read_outside_of_the_operators_namespace() -> None:
    everything = values_from({"config": {"authorizer": {"enabled": True}}})
    secrets = [each for each in granted(desired_access(everything, NAMESPACE)) if each.resource == "secrets"]
    assert [each for each in secrets if each.namespace != NAMESPACE] == []


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize(
    "scheduler", ["default-scheduler", "kai-scheduler", "koord-scheduler", "volcano", "yunikorn"]
)
def test_an_operator_with_these_roles_does_its_whole_work_unrefused(minor: str, scheduler: str) -> None:
    async def story(world: World) -> None:
        await install(world)
        await start(world)
        topology = (DEPLOY.parent / "examples" / "topology.yaml").read_text()
        await world.apply(next(yaml.safe_load_all(topology)))
        roles = [make.template("worker", 2)]
        roles[0]["spec"]["podSpec"]["schedulerName"] = scheduler
        await world.apply(make.cliqueset_manifest("train", roles, replicas=2))

        async def running() -> bool:
            return [await world.phase(f"train-{index}") for index in range(2)] == ["Running", "Running"]

        await world.until(running, "both gangs run")
        await world.scale("train", 1)

        async def smaller() -> bool:
            return await world.phase("train-1") == "missing" and len(await world.pods()) == 2

        await world.until(smaller, "the second gang is gone")
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))

        async def gone() -> bool:
            return not await world.pods() and not await world.all(kinds.GANGS)

        await world.until(gone, "everything is gone")
        await world.settle()
        assert refusals(world) == []

    run_world(story, options(minor), operator=False)


async def lacking(world: World) -> list[str]:
    """What an operator that starts now says in /readyz about its permissions."""
    limiter = Limiter.off()
    client = Client(MemoryTransport(world.cluster.app, ACCOUNT), limiter=limiter)
    reached = Reached(client, Connection(server="https://memory", namespace=NAMESPACE), limiter)
    operator = await operator_for(reached, configuration(), health=False)
    return [line for line in operator.manager.readiness.missing() if line.startswith("permissions:")]


def test_without_one_rule_the_operator_names_what_is_missing() -> None:
    whole = document("ClusterRole")

    async def story(world: World) -> None:
        await install(world)
        assert await lacking(world) == []
        for index, rule in enumerate(whole["rules"]):
            less = copy.deepcopy(whole)
            del less["rules"][index]
            await world.user.merge_patch(
                CLUSTER_ROLES, Key("", whole["metadata"]["name"]), {"rules": less["rules"]}
            )
            said = await lacking(world)
            (group,) = rule["apiGroups"]
            if all(
                (verb, group, each, "") in OPTIONAL for verb in rule["verbs"] for each in rule["resources"]
            ):
                assert said == []
                continue
            (line,) = said
            for each in rule["resources"]:
                plural, _, subresource = each.partition("/")
                target = f"{plural}.{group}" if group else plural
                target += f"/{subresource}" if subresource else ""
                for name in rule.get("resourceNames", [""]):
                    asked_for = f"{target} with name {name}" if name else target
                    named = line.split(f"{asked_for} (")[1].split(")")[0]
                    assert sorted(named.split(", ")) == sorted(rule["verbs"])

    run_world(story, options("1.37"), operator=False)


def test_without_the_lease_role_the_operator_names_lease_and_namespace() -> None:
    async def story(world: World) -> None:
        await install(world)
        bindings = resource("rbac.authorization.k8s.io", "v1", "RoleBinding")
        await world.user.delete(bindings, Key(NAMESPACE, LEASE_ROLE))
        assert await lacking(world) == [
            "permissions: not allowed: leases.coordination.k8s.io in namespace grove-system (create), "
            "leases.coordination.k8s.io with name grove-operator-leader-election in namespace grove-system "
            "(get, update)"
        ]

    run_world(story, options("1.36"), operator=False)


def test_beside_the_leases_of_others_the_operator_may_read_and_write_its_own_alone() -> None:
    elected = {"resourceNamespace": "kube-system", "resourceName": "grove"}
    values = values_from({"config": {"leaderElection": elected}})
    manifests = desired_access(values, NAMESPACE)
    own, another = Key("kube-system", "grove"), Key("kube-system", "kube-scheduler")

    async def story(world: World) -> None:
        await install(world, manifests)
        lease = {"metadata": {"name": another.name, "namespace": another.namespace}, "spec": {}}
        await world.user.create(LEASES, lease)
        await start(world)
        assert (await world.user.get(LEASES, own, type=dict))["spec"]["holderIdentity"]
        assert refusals(world) == []
        operator = Client(MemoryTransport(world.cluster.app, ACCOUNT), limiter=Limiter.off())
        with pytest.raises(Forbidden):
            await operator.get(LEASES, another, type=dict)
        with pytest.raises(Forbidden):
            await operator.replace(LEASES, {**lease, "spec": {"holderIdentity": "grove"}}, type=dict)
        with pytest.raises(Forbidden):
            await operator.delete(LEASES, own)

    chosen = dataclasses.replace(options("1.36"), configuration=values.configuration)
    run_world(story, chosen, operator=False)
