"""`grove doctor`: each part of an installation, whole and broken, and seen by somebody who may see little."""

import base64
import json
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.scenarios.test_kai import become_old

from grove.cli.doctoring import control_plane, webhooks
from grove.cli.doctoring.control_plane import clock
from grove.cli.doctoring.definitions import CRDS
from grove.cli.doctoring.examination import Asked, examine
from grove.cli.doctoring.findings import Finding, State
from grove.cli.doctoring.installation import CONFIG_MAPS, DEPLOYMENTS, LEASES
from grove.embedded.identity import User
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import Response
from grove.meta import Key, Manifest, resource
from grove.runtime.clock import rfc3339_micro
from grove.testing.memory import MemoryTransport
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import USER, World, WorldOptions, run_world

from .conftest import ROOT, Grove
from .processes import started

NAMESPACE = "grove-system"
CONFIGURATION = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"
ELECTING = CONFIGURATION + "leaderElection: {enabled: true}\n"
NOBODY = User("nobody", ())
GROUP = "rbac.authorization.k8s.io"
NAMESPACES = resource("", "v1", "Namespace", namespaced=False)
BINDINGS = resource(GROUP, "v1", "ClusterRoleBinding", namespaced=False)


def certificate(end: datetime) -> str:
    """A certificate that expires then, as a webhook configuration holds it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "grove")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(end - timedelta(days=900))
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


async def examined(world: World, user: Client | None = None) -> dict[str, list[Finding]]:
    """The findings by the name of their check."""
    asked = Asked(user or world.user, "https://here", virtual_clock().now)
    return by_check(await examine(asked))


def by_check(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for each in findings:
        found.setdefault(each.check, []).append(each)
    return found


class Dated(MemoryTransport):
    """An API server that says what time it is, as one behind HTTP does."""

    async def send(self, method: str, path: str, **options: Any) -> Response:
        answer = await super().send(method, path, **options)
        date = format_datetime(virtual_clock().now(), usegmt=True)
        return Response(answer.status, {**answer.headers, "Date": date}, answer.body)


def dated(world: World) -> Client:
    return Client(Dated(world.cluster.app, USER), limiter=Limiter.off())


def deployment(ready: int = 1) -> Manifest:
    """The operator as the manifests install it."""
    marks = {"app.kubernetes.io/name": "grove-operator"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "grove-operator", "namespace": NAMESPACE},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": marks},
            "template": {
                "metadata": {"labels": marks},
                "spec": {
                    "serviceAccountName": "grove-operator",
                    "containers": [{"name": "operator", "image": "grove"}],
                    "volumes": [{"name": "operator-config", "configMap": {"name": "grove-operator-cm-1"}}],
                },
            },
        },
        "status": {"readyReplicas": ready},
    }


async def install(world: World, configuration: str = CONFIGURATION, *, ready: int = 1) -> None:
    """The operator's objects, as if it ran in the cluster."""
    await world.user.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await world.user.create(
        CONFIG_MAPS,
        {
            "metadata": {"name": "grove-operator-cm-1", "namespace": NAMESPACE},
            "data": {"config.yaml": configuration},
        },
    )
    await world.user.create(DEPLOYMENTS, deployment())
    await world.user.merge_patch(
        DEPLOYMENTS,
        Key(NAMESPACE, "grove-operator"),
        {"status": {"readyReplicas": ready, "replicas": 2, "availableReplicas": ready}},
        subresource="status",
    )


def leased(ago: float, name: str = "grove-operator-leader-election", namespace: str = NAMESPACE) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "holderIdentity": "operator-a",
            "leaseDurationSeconds": 15,
            "renewTime": rfc3339_micro(virtual_clock().now() - timedelta(seconds=ago)),
        },
    }


def told(
    world_story: Callable[[World], Awaitable[dict[str, list[Finding]]]], **options: Any
) -> dict[str, list[Finding]]:
    """What the doctor says at the end of a story without an operator."""
    found: dict[str, list[Finding]] = {}

    async def story(world: World) -> None:
        found.update(await world_story(world))

    run_world(story, WorldOptions(**options), operator=False)
    return found


def one(found: dict[str, list[Finding]], check: str) -> Finding:
    (finding,) = found[check]
    return finding


@pytest.fixture
def somebodys_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster of the test does not look like one of `grove up`."""
    monkeypatch.setattr(control_plane, "simulated", lambda version: False)


@pytest.mark.usefixtures("somebodys_cluster")
def test_a_cluster_with_everything_but_an_operator_says_how_to_get_one() -> None:
    found = told(lambda world: examined(world, dated(world)))
    assert one(found, "api server").state is State.OK
    assert one(found, "clock").state is State.OK
    assert "pods keep schedulingGroup" in one(found, "gang scheduling").message
    assert one(found, "definitions").message == "5 kinds of Grove served, as this version defines them"
    assert one(found, "operator").state is State.WARNING
    assert one(found, "operator").fix == "install it"
    assert "grove run" in one(found, "permissions").message
    assert one(found, "scheduler default").state is State.OK
    assert [each for findings in found.values() for each in findings if each.state is State.FAILED] == []


@pytest.mark.parametrize(
    ("off", "state"), [(2, State.OK), (-20, State.WARNING), (20, State.WARNING), (-7200, State.FAILED)]
)
def test_a_clock_that_is_off_is_told_with_its_direction(off: int, state: State) -> None:
    async def story(world: World) -> None:
        now = virtual_clock().now() + timedelta(seconds=off)
        (finding,) = await clock(dated(world), lambda: now)
        assert finding.state is state
        assert ("ahead of" in finding.message) == (off > 2)
        assert ("behind" in finding.message) == (off < -2)

    run_world(story, operator=False)


def test_fields_behind_feature_gates_are_told_as_far_as_the_server_keeps_them() -> None:
    every = one(told(examined), "gang scheduling").message
    some = one(told(examined, features=frozenset({"GenericWorkload"})), "gang scheduling").message
    assert "kept behind feature gates: disruptionMode, schedulingConstraints" in every
    assert "kept behind feature gates" not in some


def test_a_server_that_drops_the_gang_of_a_pod_without_a_word_has_a_gate_off() -> None:
    class Dropping(MemoryTransport):
        async def send(self, method: str, path: str, **options: Any) -> Response:
            answer = await super().send(method, path, **options)
            if method != "POST" or not path.endswith("/pods"):
                return answer
            pod = json.loads(answer.body)
            del pod["spec"]["schedulingGroup"]
            return Response(answer.status, answer.headers, json.dumps(pod).encode())

    async def story(world: World) -> dict[str, list[Finding]]:
        return await examined(world, Client(Dropping(world.cluster.app, USER), limiter=Limiter.off()))

    finding = one(told(story), "gang scheduling")
    assert finding.state is State.FAILED
    assert "drops schedulingGroup of pods" in finding.message


def test_a_cluster_without_a_gang_api_is_a_warning_with_the_settings() -> None:
    finding = one(told(examined, features=frozenset()), "gang scheduling")
    assert finding.state is State.WARNING
    assert finding.link == "docs/guides/real-cluster.md#1-is-gang-scheduling-on"


def test_definitions_that_are_gone_or_older_are_named_with_the_command() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        name = "podcliquesets.grove.io"
        living = await world.user.get(CRDS, Key("", name), type=dict)
        schema = living["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"]["updateStrategy"]
        await world.user.replace(CRDS, living)
        older = await examined(world)
        await world.user.delete(CRDS, Key("", "podgangs.scheduler.grove.io"))
        gone = await examined(world)
        return {"older": older["definitions"], "gone": gone["definitions"]}

    found = told(story)
    assert one(found, "older").state is State.WARNING
    assert "podcliquesets.grove.io lacks spec.updateStrategy" in one(found, "older").message
    assert one(found, "gone").state is State.FAILED
    assert one(found, "gone").fix == "grove crds | kubectl apply --server-side -f -"


def test_an_operator_that_runs_and_leads_is_fine() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world, ELECTING)
        await world.user.create(LEASES, leased(3))
        return await examined(world)

    found = told(story)
    assert one(found, "operator").message == "Deployment grove-system/grove-operator: 1 of 2 ready"
    assert one(found, "leader").state is State.OK
    assert one(found, "configuration").state is State.OK


def test_a_leader_that_died_and_one_whose_clock_is_ahead_are_told() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world, ELECTING, ready=0)
        await world.user.create(LEASES, leased(600))
        dead = await examined(world)
        await world.user.delete(LEASES, Key(NAMESPACE, "grove-operator-leader-election"))
        await world.user.create(LEASES, leased(-90))
        return {
            "dead": dead["leader"],
            "operator": dead["operator"],
            "ahead": (await examined(world))["leader"],
        }

    found = told(story)
    assert one(found, "dead").state is State.FAILED
    assert one(found, "operator").state is State.FAILED
    assert one(found, "ahead").state is State.WARNING
    assert "1 m 30 s in the future" in one(found, "ahead").message


def test_the_lease_is_the_one_that_the_configuration_names() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        election = "{enabled: true, resourceName: ours, resourceNamespace: default}"
        await install(world, CONFIGURATION + f"leaderElection: {election}\n")
        await world.user.create(LEASES, leased(3))
        other = await examined(world)
        await world.user.create(LEASES, leased(3, "ours", "default"))
        return {"other": other["leader"], "own": (await examined(world))["leader"]}

    found = told(story)
    assert one(found, "other").message == "nobody holds the Lease ours"
    assert one(found, "own").message == "operator-a leads (Lease default/ours)"


def test_an_operator_without_leader_election_needs_no_lease() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world)
        return await examined(world)

    finding = one(told(story), "leader")
    assert finding.state is State.OK
    assert "leaderElection.enabled is false" in finding.message


def test_a_configuration_that_the_operator_refuses_is_named_by_its_fields() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world, CONFIGURATION + "logLevel: loud\n")
        return await examined(world)

    finding = one(told(story), "configuration")
    assert finding.state is State.FAILED
    assert "logLevel: must be one of" in finding.message


def test_permissions_are_asked_for_the_operators_own_account() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world)
        lacking = await examined(world)
        binding = {
            "metadata": {"name": "all"},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "grove-operator", "namespace": NAMESPACE}],
        }
        await world.user.create(BINDINGS, binding)
        return {"lacking": lacking["permissions"], "granted": (await examined(world))["permissions"]}

    found = told(story)
    assert one(found, "lacking").state is State.FAILED
    assert "podcliquesets.grove.io (list, watch, get, patch)" in one(found, "lacking").message
    # In a pod webhooks are served although the file does not say so.
    assert (
        "secrets with name grove-webhook-server-cert in namespace grove-system"
        in one(found, "lacking").message
    )
    assert one(found, "granted").state is State.OK


@pytest.mark.parametrize(
    ("default", "state"), [("default-scheduler", State.WARNING), ("kai-scheduler", State.FAILED)]
)
def test_a_scheduler_that_is_enabled_but_not_installed_fails_only_if_it_is_used_unasked(
    default: str, state: State
) -> None:
    profiles = f"scheduler: {{profiles: [{{name: kai-scheduler}}], defaultProfileName: {default}}}\n"

    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world, CONFIGURATION + profiles)
        return await examined(world)

    found = told(story)
    assert found["scheduler kai"][0].state is state
    assert one(found, "scheduler default").state is State.OK


WITH_KAI = CONFIGURATION + "scheduler: {profiles: [{name: kai-scheduler}]}\n"


def test_what_an_older_release_of_a_scheduler_cannot_be_told_is_one_line() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world, WITH_KAI)
        now = await examined(world)
        await become_old(world)
        return {"now": now["scheduler kai"], "old": (await examined(world))["scheduler kai"]}

    found = told(story, schedulers=("kai",))
    assert [each.state for each in found["now"]] == [State.OK]
    has_all, lacks = found["old"]
    assert has_all.state is State.OK
    assert lacks.state is State.WARNING
    assert lacks.message.startswith("this release of KAI has no stalenessGracePeriod")
    assert "\n" not in lacks.message


def test_who_may_not_try_fields_is_not_told_that_a_release_lacks_them() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world, WITH_KAI)
        return await examined(
            world, Client(MemoryTransport(world.cluster.app, NOBODY), limiter=Limiter.off())
        )

    found = told(story, schedulers=("kai",))
    assert [each.state for each in found["scheduler kai"]] == [State.OK, State.UNKNOWN]


def registered(name: str, bundle: str) -> Manifest:
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.grove.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "clientConfig": {
                    "caBundle": bundle,
                    "service": {"name": "grove-operator", "namespace": NAMESPACE, "port": 9443},
                },
                "rules": [
                    {
                        "apiGroups": ["x.io"],
                        "apiVersions": ["*"],
                        "operations": ["CREATE"],
                        "resources": ["x"],
                    }
                ],
            }
        ],
    }


BUNDLES = {
    "a bundle that holds": ([400], State.OK, "is valid for 400 d"),
    "one that expires soon": ([3], State.WARNING, "expires in 3 d"),
    "one that has expired": ([-3], State.FAILED, "expired 3 d ago"),
    "an old authority beside a new one": ([3, 400], State.OK, "is valid for 400 d"),
    "none at all": ([], State.FAILED, "has no caBundle"),
}


@pytest.mark.parametrize(("days", "state", "words"), BUNDLES.values(), ids=BUNDLES)
def test_webhooks_are_judged_by_the_authority_that_they_are_trusted_by(
    days: list[int], state: State, words: str
) -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world)
        ends = [virtual_clock().now() + timedelta(days=each) for each in days]
        bundle = base64.b64encode(b"".join(base64.b64decode(certificate(end)) for end in ends)).decode()
        for kind, name in webhooks.REGISTERED[:-1]:
            await world.user.create(kind, registered(name, bundle))
        return await examined(world)

    found = told(story)["webhooks"]
    trust = [each for each in found if each.message.startswith("podcliqueset-validating-webhook")]
    assert [each.state for each in trust] == [state]
    assert words in trust[0].message
    # No Service, no endpoints: whatever the certificates are, nobody answers.
    assert found[-1].state is State.FAILED
    assert "no ready endpoint" in found[-1].message


@pytest.mark.usefixtures("somebodys_cluster")
def test_a_webhook_that_is_missing_among_others_is_named_and_none_at_all_is_a_warning() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        none = await examined(world)
        kind, name = webhooks.REGISTERED[0]
        await world.user.create(
            kind, registered(name, certificate(virtual_clock().now() + timedelta(days=99)))
        )
        return {"none": none["webhooks"], "some": (await examined(world))["webhooks"]}

    found = told(story)
    assert one(found, "none").state is State.WARNING
    assert found["some"][0].state is State.FAILED
    assert "ValidatingWebhookConfiguration podcliqueset-validating-webhook" in found["some"][0].message


def test_somebody_who_may_see_nothing_is_told_so_line_by_line() -> None:
    async def story(world: World) -> dict[str, list[Finding]]:
        await install(world)
        nobody = Client(MemoryTransport(world.cluster.app, NOBODY), limiter=Limiter.off())
        return await examined(world, nobody)

    found = told(story)
    hidden = {check for check, findings in found.items() if findings[0].state is State.UNKNOWN}
    assert {"clock", "gang scheduling", "definitions", "operator", "webhooks"} <= hidden
    assert one(found, "api server").state is State.OK


def test_every_link_leads_to_a_page_and_its_heading() -> None:
    sources = (ROOT / "src" / "grove" / "cli" / "doctoring").glob("*.py")
    links = {link for path in sources for link in re.findall(r'"(docs/[^"]+)"', path.read_text())}
    assert len(links) > 4
    for link in links:
        page, _, anchor = link.partition("#")
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
        assert not anchor or anchor in anchors, link


def test_the_command_examines_a_cluster_of_grove_up(grove: Grove, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        process.output.readline()
        ran = grove("doctor", "--kubeconfig", str(kubeconfig), "-o", "json")
        lines = grove("doctor", "--kubeconfig", str(kubeconfig))
        process.ask_to_stop()
    found = {each["check"]: each for each in json.loads(ran.out)["findings"]}
    assert (ran.code, lines.code) == (0, 0), lines.out
    assert found["clock"]["state"] == "ok"
    assert found["schedulers"]["message"] == "simulated by the embedded cluster"
    assert re.search(r"^ok +definitions +5 kinds of Grove served", lines.out, re.MULTILINE)
    # Nothing is to be installed beside the operator of `grove up`.
    assert (found["operator"]["state"], found["webhooks"]["state"]) == ("ok", "ok")
    assert "; fix: install" not in lines.out


def test_links_are_put_behind_the_address_of_the_documentation(
    grove: Grove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*options: str) -> str:
        ran = grove("doctor", *unanswering(tmp_path), "-o", "json", *options)
        return str(json.loads(ran.out)["findings"][0]["link"])

    page = "docs/guides/troubleshooting.md#what-grove-doctor-says"
    assert link() == page
    assert (
        link("--documentation-url", "https://git.example.com/grove")
        == f"https://git.example.com/grove/{page}"
    )
    monkeypatch.setenv("GROVE_DOCUMENTATION_URL", "https://docs.example.com/")
    assert link() == f"https://docs.example.com/{page}"
    ran = grove("doctor", "--documentation-url", "git.example.com")
    assert ran.code == 1
    assert "--documentation-url: must begin with https:// or http://" in ran.err


def unanswering(folder: Path) -> tuple[str, str]:
    """The option for a kubeconfig whose server nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    name = folder / "nobody"
    cluster = {"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    document = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
    name.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **document}))
    return "--kubeconfig", str(name)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_server_that_does_not_answer_is_a_finding_for_programs_too(
    grove: Grove, tmp_path: Path, form: str
) -> None:
    ran = grove("doctor", *unanswering(tmp_path), "-o", form)
    told = yaml.safe_load(ran.out)
    assert ran.code == 1
    assert told["summary"] == {"failed": 1}
    (finding,) = told["findings"]
    assert (finding["check"], finding["state"]) == ("api server", "failed")
    assert finding["message"].startswith("cannot reach the API server https://127.0.0.1:")
    assert ran.err.startswith("grove: cannot reach the API server https://127.0.0.1:")


def test_a_server_that_does_not_answer_is_one_sentence_for_people(grove: Grove, tmp_path: Path) -> None:
    ran = grove("doctor", *unanswering(tmp_path))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("grove: cannot reach the API server https://127.0.0.1:")


def test_a_server_that_does_not_know_who_asks_is_a_finding_too(grove: Grove, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        process.output.readline()
        document = yaml.safe_load(kubeconfig.read_text())
        document["users"][0]["user"] = {"token": "of nobody"}
        kubeconfig.write_text(yaml.safe_dump(document))
        ran = grove("doctor", "--kubeconfig", str(kubeconfig), "-o", "json")
        process.ask_to_stop()
    (finding,) = json.loads(ran.out)["findings"]
    assert (ran.code, finding["check"], finding["state"]) == (1, "api server", "failed")
    assert "Unauthorized" in finding["message"]
