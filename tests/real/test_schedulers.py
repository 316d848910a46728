"""How the schedulers of others are started: on the loopback, with what a gang needs switched on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from grove.real.schedulers import Launch, Site, launch
from grove.real.third_party import THIRD_PARTIES

FOLDER = Path("/cp/scheduler")


def launched(name: str) -> Launch:
    programs = {tool.name: Path("/bin") / tool.name for tool in THIRD_PARTIES[name].programs}
    serving = ("--tls-cert-file=/cp/server.crt", "--tls-private-key-file=/cp/server.key")
    return launch(name, Site(programs, Path("/cp/user"), FOLDER, "https://127.0.0.1:1", (2, 3), serving))


@pytest.mark.parametrize("name", THIRD_PARTIES)
def test_every_address_of_a_scheduler_is_on_the_loopback(name: str) -> None:
    for part in launched(name).parts:
        given = " ".join((*part.command, *part.environment.values()))
        addresses = re.findall(r"(?<![\d.])(\S*?):(\d+)(?!\S*=)", given)
        assert all(host.rpartition("=")[2] == "127.0.0.1" for host, _ in addresses), addresses
        assert part.probe.url.split("/")[2].startswith("127.0.0.1:")


@pytest.mark.parametrize("name", THIRD_PARTIES)
def test_every_program_of_a_scheduler_is_started_with_its_kubeconfig(name: str) -> None:
    parts = launched(name).parts
    assert {part.name for part in parts} == {tool.name for tool in THIRD_PARTIES[name].programs}
    files = launched(name).files
    for part in parts:
        shown = " ".join((*part.command, *part.environment.values(), *files.values()))
        assert "/cp/user" in shown


def test_kai_has_no_server_without_an_address() -> None:
    scheduler, _ = launched("kai").parts
    assert "--plugin-server-port=-1" in scheduler.command


def test_kai_gets_a_queue_under_a_parent_without_limits() -> None:
    parent, leaf = launched("kai").objects
    assert leaf["spec"]["parentQueue"] == parent["metadata"]["name"]
    assert leaf["metadata"]["name"] == "default-queue"
    assert {each["limit"] for each in leaf["spec"]["resources"].values()} == {-1}


def test_volcano_schedules_gangs_and_their_topology_and_opens_its_queue() -> None:
    found = launched("volcano")
    ((path, text),) = found.files.items()
    assert f"--scheduler-conf={path}" in found.parts[0].command
    plugins = {each["name"] for tier in yaml.safe_load(text)["tiers"] for each in tier["plugins"]}
    assert {"gang", "predicates", "network-topology-aware"} <= plugins
    opened = found.parts[1].probe.holds
    assert opened is not None
    assert not opened({"metadata": {"name": "default"}})
    assert opened({"status": {"state": "Open"}})


def test_koordinator_knows_gangs_and_topology_and_does_not_spin() -> None:
    found = launched("koordinator")
    command = found.parts[0].command
    assert "--feature-gates=SchedulerPopFromBackoffQ=false" in command
    assert "--enable-network-topology-manager=true" in command
    (profile,) = json.loads(next(iter(found.files.values())))["profiles"]
    assert profile["schedulerName"] == "koord-scheduler"
    assert profile["pluginConfig"][0]["args"]["awareNetworkTopology"] is True
    assert "queueSort" not in profile["plugins"]


def test_koordinator_counts_quotas() -> None:
    made = launched("koordinator")
    assert [each["metadata"]["name"] for each in made.kinds] == ["elasticquotas.scheduling.sigs.k8s.io"]
    [config] = [json.loads(text) for text in made.files.values()]
    plugins = config["profiles"][0]["plugins"]
    for point in ("preFilter", "reserve"):
        assert {"name": "ElasticQuota"} in plugins[point]["enabled"]


def test_yunikorn_puts_pods_into_the_queue_that_they_name() -> None:
    namespace, settings = launched("yunikorn").objects
    assert settings["metadata"]["namespace"] == namespace["metadata"]["name"]
    (partition,) = yaml.safe_load(settings["data"]["queues.yaml"])["partitions"]
    assert [rule["name"] for rule in partition["placementrules"]] == ["provided", "tag"]
