"""`grove up --data-dir` as a process that is killed, starved of disk space and started twice."""

import http.client
import json
import os
import resource
import signal
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from .conftest import Grove
from .processes import Process, started

MAPS = "/api/v1/namespaces/default/configmaps"
ROUNDS = 5


class Api:
    """The API server of a kubeconfig, asked over one connection."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        address = urlsplit(content["clusters"][0]["cluster"]["server"])
        self._token = content["users"][0]["user"]["token"]
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        self._connection = http.client.HTTPSConnection(
            str(address.hostname), address.port, context=tls, timeout=20
        )

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def create(self, name: str) -> tuple[int, dict[str, Any]]:
        return self.ask("POST", MAPS, {"metadata": {"name": name}, "data": {"text": "x" * 2000}})

    def maps(self) -> dict[str, str]:
        """Each ConfigMap's name with its uid."""
        status, found = self.ask("GET", MAPS)
        assert status == 200
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found["items"]}


@contextmanager
def up(folder: Path) -> Iterator[tuple[Process, Api]]:
    kubeconfig = folder / "kubeconfig"
    arguments = ["--no-operator", "--nodes", "1", "--data-dir", str(folder / "data")]
    with started("up", *arguments, "--write-kubeconfig", str(kubeconfig), folder=folder) as process:
        assert process.output.readline(), process.said
        yield process, Api(kubeconfig)


def test_everything_acknowledged_survives_kills_in_the_middle_of_writing(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    versions: set[str] = set()
    for number in range(ROUNDS):
        with up(tmp_path) as (process, api):
            assert acknowledged.items() <= api.maps().items()
            killer = threading.Timer(0.15 + 0.1 * number, os.kill, (process.group, signal.SIGKILL))
            killer.start()
            try:
                for count in range(10_000):
                    status, made = api.create(f"m{number}-{count}")
                    assert status == 201
                    assert made["metadata"]["resourceVersion"] not in versions
                    versions.add(made["metadata"]["resourceVersion"])
                    acknowledged[made["metadata"]["name"]] = made["metadata"]["uid"]
            except (OSError, http.client.HTTPException):
                assert process.end() == -signal.SIGKILL
            finally:
                killer.cancel()
    with up(tmp_path) as (process, api):
        kept = api.maps()
        assert acknowledged.items() <= kept.items()
        # One write of each round may have been kept without its answer.
        assert len(kept) <= len(acknowledged) + ROUNDS
        assert len(set(kept.values())) == len(kept)
        assert process.ask_to_stop() == 0
    assert len(acknowledged) > 2 * ROUNDS


def test_a_disk_without_room_refuses_writes_and_serves_again_when_there_is_room(tmp_path: Path) -> None:
    with up(tmp_path) as (process, api):
        assert api.create("before")[0] == 201
        before = api.maps()
        unlimited = resource.prlimit(process.group, resource.RLIMIT_FSIZE)
        resource.prlimit(process.group, resource.RLIMIT_FSIZE, (512, unlimited[1]))
        answers = [api.create(f"refused{number}") for number in range(5)]
        assert {status for status, _ in answers} <= {500, 507}
        assert all("nothing was stored" in status["message"] for _, status in answers)
        assert api.maps() == before
        resource.prlimit(process.group, resource.RLIMIT_FSIZE, unlimited)
        assert api.create("after")[0] == 201
        wanted = api.maps()
        process.ask_to_stop(signal.SIGKILL)
    with up(tmp_path) as (process, api):
        assert api.maps() == wanted
        assert set(wanted) == {"before", "after"}
        assert process.ask_to_stop() == 0


def test_the_second_process_is_told_who_uses_the_directory(tmp_path: Path, grove: Grove) -> None:
    with up(tmp_path) as (process, api):
        ran = grove("up", "--no-operator", "--data-dir", str(tmp_path / "data"))
        assert (ran.code, ran.out) == (1, "")
        assert len(ran.err.splitlines()) == 1
        assert f"{tmp_path / 'data'} is in use by another cluster (process {process.group})" in ran.err
        assert api.create("still-works")[0] == 201
        process.ask_to_stop(signal.SIGKILL)
    with up(tmp_path) as (process, api):
        assert "still-works" in api.maps()
        assert process.ask_to_stop() == 0
