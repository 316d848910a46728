"""What the cache promises: whole programs or none, and one writer at a time."""

from __future__ import annotations

import asyncio
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from grove.real.cache import MANIFEST, Cache, default_root
from grove.real.versions import Tool

TOOL = Tool("thing", "1.2.3", "thing", "example.org/thing")


def stored(cache: Cache, folder: Path, content: bytes = b"a program") -> Path:
    fresh = folder / "fresh"
    fresh.write_bytes(content)
    return cache.store(TOOL, fresh, built_with="go1.26.0")


def test_a_stored_program_is_found_executable_and_undamaged(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    path = stored(cache, tmp_path)
    assert path == tmp_path / "cache" / "thing-1.2.3" / "thing"
    assert cache.find(TOOL) == path
    assert cache.damage(TOOL) == ""
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_program_without_its_manifest_does_not_count(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    (stored(cache, tmp_path).parent / MANIFEST).unlink()
    assert cache.find(TOOL) is None
    assert cache.damage(TOOL) == "has no readable manifest for this machine"


def test_a_truncated_program_is_not_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    stored(cache, tmp_path).write_bytes(b"a prog")
    assert cache.find(TOOL) is None
    assert cache.damage(TOOL) == "has 6 bytes instead of 9"


def test_a_changed_byte_shows_when_the_program_is_verified(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    stored(cache, tmp_path).write_bytes(b"b program")
    assert cache.damage(TOOL) == "has another checksum than when it was built"


def test_a_program_built_for_another_machine_is_not_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    manifest = stored(cache, tmp_path).parent / MANIFEST
    entry = cache.entry(TOOL)
    assert entry is not None
    manifest.write_text(manifest.read_text().replace(entry.platform, "plan9/mips"))
    assert cache.find(TOOL) is None


def test_a_new_program_replaces_a_damaged_one(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    stored(cache, tmp_path).write_bytes(b"?")
    stored(cache, tmp_path, b"a better program")
    assert cache.damage(TOOL) == ""
    assert cache.path(TOOL).read_bytes() == b"a better program"


def _hold(root: Path, pipe: Connection) -> None:
    async def hold() -> None:
        async with Cache(root).lock(waiting=lambda _: None):
            pipe.send("held")
            pipe.recv()

    asyncio.run(hold())


def test_a_second_writer_waits_and_says_for_whom(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    other = multiprocessing.get_context("fork").Process(target=_hold, args=(tmp_path, theirs))
    other.start()
    assert ours.recv() == "held"
    said: list[str] = []

    def waiting(line: str) -> None:
        said.append(line)
        ours.send("go on")

    async def write() -> None:
        async with Cache(tmp_path).lock(waiting=waiting):
            other.join()

    asyncio.run(write())
    assert said == [f"Another installation is at work (process {other.pid}); waiting for it to finish ..."]


def test_whoever_gets_the_lock_sweeps_up_after_an_interrupted_writer(tmp_path: Path) -> None:
    left = tmp_path / ".work-abandoned"
    left.mkdir()
    (left / "half").write_bytes(b"half")

    async def write() -> None:
        async with Cache(tmp_path).lock(waiting=lambda _: None):
            assert not left.exists()

    asyncio.run(write())


def test_whoever_waits_for_the_lock_can_be_asked_to_end(tmp_path: Path) -> None:
    async def story() -> None:
        told = asyncio.Event()

        async def second() -> None:
            async with Cache(tmp_path).lock(waiting=lambda _: told.set()):
                raise AssertionError("two writers at once")

        async with Cache(tmp_path).lock(waiting=lambda _: None):
            waiting = asyncio.create_task(second())
            await told.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(story())
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_large_folder_is_out_of_the_way_at_once_and_its_removal_can_be_interrupted(tmp_path: Path) -> None:
    cache, large = Cache(tmp_path), tmp_path / "large"
    for shard in range(20):
        (large / str(shard)).mkdir(parents=True)

    async def story() -> None:
        removal = asyncio.create_task(cache.discard(large))
        await asyncio.sleep(0)
        assert not large.exists()
        removal.cancel()
        with pytest.raises(asyncio.CancelledError):
            await removal

    async def write() -> None:
        async with cache.lock(waiting=lambda _: None):
            pass

    asyncio.run(story())
    assert list(tmp_path.glob(".work-*/large/*"))
    asyncio.run(write())
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_the_cache_is_the_users_and_follows_the_xdg_variable() -> None:
    assert default_root({"HOME": "/home/u"}) == Path("/home/u/.cache/grove/real")
    assert default_root({"HOME": "/home/u", "XDG_CACHE_HOME": "/big"}) == Path("/big/grove/real")
