"""Programs that behave and programs that do not, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.real.conftest import Program

from grove.real import place as place_module
from grove.real.binaries import Locator
from grove.real.cache import Cache
from grove.real.component import Component, telling_lines
from grove.real.control_plane import RealControlPlane
from grove.real.failure import ComponentFailed, RealFailure
from grove.real.options import Options
from grove.real.place import Place, sweep

WAITS = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
)


async def _never() -> bool:
    return False


def component(folder: Path, program: Program, body: str) -> Component:
    return Component("thing", [str(program(folder / "thing", body))], folder / "thing.log")


async def up(thing: Component) -> None:
    async def said_up() -> bool:
        return "up" in thing.log.read_text()

    await thing.start()
    await thing.ready(said_up, within=20)


def test_a_component_runs_until_it_is_asked_to_end(tmp_path: Path, program: Program) -> None:
    async def story() -> None:
        thing = component(tmp_path, program, WAITS)
        await up(thing)
        assert thing.running
        await thing.stop(grace=20)
        assert not thing.running
        assert not thing.gave_trouble

    asyncio.run(story())


def test_a_component_that_ignores_the_request_is_ended(tmp_path: Path, program: Program) -> None:
    async def story() -> None:
        thing = component(tmp_path, program, STUBBORN)
        await up(thing)
        pid = thing.pid
        assert pid is not None
        await thing.stop(grace=0.01)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    asyncio.run(story())


def test_a_component_can_be_started_again(tmp_path: Path, program: Program) -> None:
    async def story() -> None:
        thing = component(tmp_path, program, WAITS)
        await up(thing)
        first = thing.pid
        await thing.kill()
        await up(thing)
        assert thing.pid not in (None, first)
        await thing.kill()

    asyncio.run(story())


def test_a_component_that_ends_at_its_start_is_reported_with_its_own_words(
    tmp_path: Path, program: Program
) -> None:
    async def story() -> None:
        thing = component(
            tmp_path, program, "print('starting\\nError: unknown flag: --x\\nbye'); raise SystemExit(3)"
        )
        await thing.start()
        with pytest.raises(ComponentFailed) as failure:
            await thing.ready(_never, within=20)
        log = tmp_path / "thing.log"
        assert str(failure.value) == (
            f"thing ended by itself with code 3; its log {log} says:\n    Error: unknown flag: --x"
        )
        assert thing.gave_trouble

    asyncio.run(story())


def test_a_component_that_is_not_ready_in_time_is_reported(tmp_path: Path, program: Program) -> None:
    async def story() -> None:
        thing = component(tmp_path, program, WAITS)
        await thing.start()
        try:
            with pytest.raises(ComponentFailed, match="thing did not become ready within 0 s"):
                await thing.ready(_never, within=0)
            assert thing.gave_trouble
        finally:
            await thing.kill()

    asyncio.run(story())


def test_the_end_of_a_component_that_should_run_is_news(tmp_path: Path, program: Program) -> None:
    async def story() -> None:
        thing = component(tmp_path, program, WAITS)
        await up(thing)
        assert thing.pid is not None
        os.kill(thing.pid, signal.SIGKILL)
        failure = await asyncio.wait_for(thing.unexpected_end(), 20)
        assert "thing was ended by SIGKILL" in str(failure)

    asyncio.run(story())


PARENT = """
import asyncio, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from pathlib import Path
from grove.real.component import Component
async def main():
    thing = Component("thing", [sys.argv[1]], Path(sys.argv[2]))
    await thing.start()
    print(thing.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_no_component_outlives_a_parent_that_is_ended(
    tmp_path: Path, program: Program, end: signal.Signals
) -> None:
    command = [
        sys.executable,
        "-c",
        PARENT,
        str(program(tmp_path / "thing", STUBBORN)),
        str(tmp_path / "log"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | _path()) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(end)
        ended, _, _ = select.select([child], [], [], 20)
        os.close(child)
        parent.kill()
    assert ended == [child]


def _path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_the_lines_that_speak_of_trouble_are_told_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\npanic: at sea\ntwo\n" + "three\n" * 10)
    assert telling_lines(log) == ("panic: at sea",)
    log.write_text("one\ntwo\n")
    assert telling_lines(log) == ("one", "two")
    assert telling_lines(tmp_path / "absent") == ()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_failed_start_leaves_the_logs_and_nothing_else(
    tmp_path: Path, temporary: Path, program: Program
) -> None:
    assets = tmp_path / "assets"
    body = "import sys\nif '--version' in sys.argv: print('Kubernetes v1.36.4')\nelse: sys.exit('Error: no such disk')"
    for name in ("etcd", "kube-apiserver"):
        program(assets / name, body.replace("1.36.4", "3.6.16") if name == "etcd" else body)
    locator = Locator(Cache(tmp_path / "cache"), {"KUBEBUILDER_ASSETS": str(assets), "PATH": ""})
    options = Options(scheduler=False, controller_manager=False, locator=locator, say=lambda _: None)
    with pytest.raises(ComponentFailed, match="etcd ended by itself with code 1") as failure:
        asyncio.run(RealControlPlane(options).start())
    assert failure.value.lines == ("Error: no such disk",)
    assert [path for path in temporary.rglob("*") if path.is_file()] == [failure.value.log]


def test_a_control_plane_that_is_not_started_says_so() -> None:
    plane = RealControlPlane(Options(say=lambda _: None))
    with pytest.raises(RealFailure, match="not started"):
        plane.kubeconfig()
    with pytest.raises(RealFailure, match="no component 'etcd'"):
        asyncio.run(plane.kill("etcd"))
    asyncio.run(plane.stop())
    assert plane.pids == {}


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("years of work")
    with pytest.raises(RealFailure, match="holds other files"):
        Place(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


def test_a_directory_has_one_control_plane_at_a_time(tmp_path: Path) -> None:
    first = Place(tmp_path / "cp")
    with pytest.raises(RealFailure, match="in use by another control plane"):
        Place(tmp_path / "cp")
    first.release()
    second = Place(tmp_path / "cp")
    second.clear()
    assert not (tmp_path / "cp").exists()


def test_what_a_killed_owner_left_is_swept_up_and_kept_logs_are_not(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_module, "YOUNG_SECONDS", -1.0)
    running, orphan, logs = (temporary / f"grove-real-{name}" for name in ("running", "orphan", "logs"))
    for folder in (orphan, logs):
        folder.mkdir()
    (orphan / "claim").touch()
    held = Place(running)
    sweep(temporary)
    assert sorted(path.name for path in temporary.iterdir()) == ["grove-real-logs", "grove-real-running"]
    held.release()
