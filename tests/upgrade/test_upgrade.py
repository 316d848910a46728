"""An upgrade from a release of ours with sets running, and the way back: no pod restarts, and nothing is rewritten."""

import json
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest
from tests.upgrade.record import RELEASES, record_cluster
from tests.upgrade.recording import read
from tests.upgrade.restarting import Restarted, restarted
from tests.upgrade.workloads import CLUSTERS

from grove import __version__
from grove.api import labels
from grove.meta import Manifest

ROOT: Final = Path(__file__).parents[2]
FILES: Final = sorted(RELEASES.glob("*.json.gz"))
#: The commit from which the recordings of a release were made.
COMMITS: Final = json.loads((RELEASES / "commits.json").read_text())
#: What a release may write into clusters that another one left, as `verb resource name`. A set in the middle of
#: an update did not say yet that it is not Ready for that, and how many of its replicas are updated.
DECLARED: Final = frozenset({"patch podcliquesets.grove.io/status updated"})
#: The same, by way of scheduling, of gangs with pods above their minimum that found no room, and their set: that
#: was not told. Elsewhere all of these pods found room.
TOLD_OF_PODS_WITHOUT_ROOM: Final = {
    offer: frozenset(
        {
            "patch podgangs.scheduler.grove.io/status llm-0-dec-0",
            "patch podgangs.scheduler.grove.io/status llm-0-dec-1",
            "patch podcliquesets.grove.io/status llm",
        }
    )
    for offer in ("1.37", "koordinator", "volcano")
}


def parts(file: Path) -> tuple[str, str]:
    """The release and the way of scheduling."""
    release, _, offer = file.name.removesuffix(".json.gz").partition("-")
    return release, offer


def assert_untouched(found: Restarted, offer: str) -> None:
    assert found.deleted == []
    assert found.changed == []
    declared = DECLARED | TOLD_OF_PODS_WITHOUT_ROOM.get(offer, frozenset())
    assert [each for each in found.writes if each not in declared] == []
    assert len(found.writes) <= 2 * len(declared), "what is declared is written, and then nothing any more"
    assert all(versions == ["v1alpha1"] for versions in found.stored_versions.values()), found.stored_versions


def test_every_way_of_scheduling_was_recorded() -> None:
    assert {parts(file)[1] for file in FILES} == set(CLUSTERS)
    for file in FILES:
        recording = read(file)
        assert recording.release == parts(file)[0]
        pods = recording.objects["", "pods"]
        assert len(pods) > 5
        assert any(each["spec"].get("nodeName") for each in pods)
        assert len(images(pods, "updated")) == 2, "recorded in the middle of an update"
        assert not any(each["spec"].get("nodeName") for each in pods if part_of(each) == "waits")


def part_of(pod: Manifest) -> str:
    return str((pod["metadata"].get("labels") or {}).get(labels.PART_OF))


def images(pods: list[Manifest], cliqueset: str) -> set[str]:
    return {each["spec"]["containers"][0]["image"] for each in pods if part_of(each) == cliqueset}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".json.gz"))
def test_an_upgrade_restarts_no_pod_and_rewrites_nothing(file: Path) -> None:
    offer = parts(file)[1]
    assert_untouched(restarted(file, offer), offer)


def source_of(release: str, folder: Path) -> Path:
    """The code of a release, out of the history; skips where the clone has none."""
    commit = COMMITS[release]
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit, "src"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(f"the history of this clone does not reach {commit}, release {release}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as content:
        content.extractall(folder, filter="data")
    return folder / "src"


@pytest.mark.parametrize("offer", CLUSTERS)
def test_the_release_before_finds_nothing_to_do_in_what_this_one_made(offer: str, tmp_path: Path) -> None:
    release = max(COMMITS)
    source = source_of(release, tmp_path)
    file = record_cluster(__version__, offer, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.upgrade.restarting", str(file), offer],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_untouched(Restarted(**json.loads(done.stdout)), offer)
