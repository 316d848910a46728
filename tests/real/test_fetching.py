"""Fetching files of a Go module with a stand-in for Go: where they are, and why they cannot be had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.real.conftest import Program

from grove.real import fetching
from grove.real.build import MODULES
from grove.real.failure import NotInstalled
from grove.real.fetching import fetched
from grove.real.toolchain import Go
from grove.real.versions import prometheus_operator

WANTED = prometheus_operator()
# Says what ANSWER says, and notes how it was called.
FAKE_GO = """
import json, os, sys
files = {name: open(name).read() for name in ("go.mod", "go.sum")}
with open(os.environ["CALL"], "w") as call:
    json.dump({"argv": sys.argv[1:], "proxy": os.environ.get("GOPROXY", ""), "files": files}, call)
print(os.environ["ANSWER"])
print(os.environ.get("COMPLAINT", ""), file=sys.stderr)
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def call(tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in notes how it was called."""
    go = Go(program(tmp_path / "go", FAKE_GO), "go1.26.8")
    monkeypatch.setattr(fetching, "find_go", lambda: go)
    monkeypatch.setenv("CALL", str(tmp_path / "call"))
    monkeypatch.setenv("GOPROXY", "https://proxy.example.com")
    answer(monkeypatch, {"Dir": str(tmp_path)})
    return tmp_path / "call"


def answer(monkeypatch: pytest.MonkeyPatch, said: dict[str, str] | None, code: int = 0) -> None:
    monkeypatch.setenv("ANSWER", json.dumps(said) if said is not None else "")
    monkeypatch.setenv("CODE", str(code))


def put(folder: Path) -> list[Path]:
    found = [folder / each for each in WANTED.files]
    for each in found:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.touch()
    return found


def test_the_files_are_where_go_has_the_module_that_is_pinned(call: Path, tmp_path: Path) -> None:
    want = put(tmp_path)
    assert fetched(WANTED) == want
    noted = json.loads(call.read_text())
    assert noted["argv"] == ["mod", "download", "-json", WANTED.source]
    assert noted["proxy"] == "https://proxy.example.com"
    pinned = MODULES / WANTED.module
    assert noted["files"] == {name: (pinned / name).read_text() for name in ("go.mod", "go.sum")}


def test_offline_nobody_is_asked(call: Path, tmp_path: Path) -> None:
    put(tmp_path)
    fetched(WANTED, offline=True)
    assert json.loads(call.read_text())["proxy"] == "off"


def test_what_cannot_be_had_is_said_with_the_reason_and_the_command(
    call: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, {"Error": "module lookup disabled by GOPROXY=off"}, code=1)
    with pytest.raises(
        NotInstalled, match=r"module lookup disabled.*`python -m grove\.real fetch prometheus-operator`"
    ):
        fetched(WANTED, offline=True)
    answer(monkeypatch, None, code=1)
    monkeypatch.setenv("COMPLAINT", "SECURITY ERROR\nchecksum mismatch")
    with pytest.raises(NotInstalled, match="SECURITY ERROR checksum mismatch"):
        fetched(WANTED)


def test_a_module_without_the_files_is_told(call: Path) -> None:
    with pytest.raises(NotInstalled, match=r"has no file monitoring\.coreos\.com_podmonitors\.yaml"):
        fetched(WANTED)
