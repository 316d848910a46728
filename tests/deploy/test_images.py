"""How images are made: what is in them is written down, and a release names its bases by digest.

`make images` builds and starts them for real; what is tested here needs neither root nor an index.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from scripts import build_images, sbom, start_images

from grove import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = (ROOT / "requirements.lock").read_text()
DOCKERFILE: Final = (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_bill_lists_every_pinned_package_that_the_image_keeps() -> None:
    found = sbom.bill(sbom.OPERATOR, LOCK, DOCKERFILE, __version__)
    names = {each["name"] for each in found["components"]}
    assert {"aiohttp", "msgspec", "pyyaml", "cryptography"} <= names
    assert "cel-expr-python" not in names
    assert found["metadata"]["component"]["version"] == __version__


def test_every_package_is_reached_from_the_image_and_every_reference_leads_somewhere() -> None:
    found = sbom.bill(sbom.OPERATOR, LOCK, DOCKERFILE, __version__)
    needs = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    known = {found["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in found["components"])}
    assert set(needs) == known
    reached: set[str] = set()
    ahead = [found["metadata"]["component"]["bom-ref"]]
    while ahead:
        each = ahead.pop()
        if each not in reached:
            reached.add(each)
            ahead += needs[each]
    assert reached == known


def test_the_waiting_program_brings_no_package() -> None:
    found = sbom.bill(sbom.WAITING, LOCK, DOCKERFILE, __version__)
    assert found["components"] == []


def test_the_bill_of_one_checkout_is_the_same_every_time() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "sbom.py"), sbom.OPERATOR]
    first, second = (subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2))
    assert first == second
    assert json.loads(first)["bomFormat"] == "CycloneDX"


def test_packages_for_another_system_and_comments_are_left_out() -> None:
    text = "a==1 \\\n    --hash=sha256:x\n    # via\n    #   b\n    #   c\nw==2 ; sys_platform == 'win32' \\\n    # via a\n"
    (only,) = sbom.packages(text)
    assert (only.name, only.version, only.needed_by) == ("a", "1", ["b", "c"])


@pytest.mark.parametrize("base", ["", "python:3.13-slim", "python:3.13-slim@sha256:12"])
def test_a_release_without_the_digest_of_a_base_is_refused(base: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", "PYTHON_IMAGE": base, "INITC_IMAGE": base}
    command = ["bash", str(ROOT / "scripts" / "images.sh"), "registry.example.com/grove"]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 1
    assert "PYTHON_IMAGE must name a base image with its digest" in ran.stderr


def test_both_bases_are_arguments_so_that_a_release_can_pin_them() -> None:
    bases = [line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("FROM ")]
    assert bases == ["${PYTHON_IMAGE}", "${INITC_IMAGE}", "${PYTHON_IMAGE}"]


def test_builders_are_given_what_the_dockerfile_copies_and_no_byte_code() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert (rules[0], rules[-1]) == ("*", "**/__pycache__")
    given = {rule.removeprefix("!") for rule in rules[1:-1]}
    copied = re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, re.MULTILINE)
    whole = {each for each in copied if not any(each.startswith(f"{other}/") for other in given)}
    assert given == whole


def test_byte_code_is_made_once_and_for_every_builder() -> None:
    (installs,) = [line for line in DOCKERFILE.splitlines() if "pip install" in line]
    assert "--no-compile" in installs
    compiles = [line for line in DOCKERFILE.splitlines() if "compileall" in line]
    assert len(compiles) == 2
    assert all("-f --invalidation-mode unchecked-hash" in line for line in compiles)


LISTED: Final = """:env:.cert='/env/authorities.crt'
:env:.find-links='/wheels'
global.cert='/file/authorities.crt'
global.extra-index-url='\\nhttps://a.example/simple\\nhttps://b.example/simple'
global.index-url="https://o'index.example/simple"
install.no-binary='x'
"""


def test_a_build_reaches_the_index_as_pip_does_here() -> None:
    settings = build_images.pip_settings(LISTED)
    assert settings == {
        "cert": "/env/authorities.crt",
        "extra-index-url": "\nhttps://a.example/simple\nhttps://b.example/simple",
        "index-url": "https://o'index.example/simple",
    }
    assert build_images.pip_file({"timeout": "9", "extra-index-url": settings["extra-index-url"]}) == (
        "[global]\ntimeout = 9\nextra-index-url = https://a.example/simple\n    https://b.example/simple\n"
    )


def test_what_is_missing_is_told_where_it_cannot_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(start_images.Failed, match="run it as root"):
        build_images.require_tools()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(build_images, "TOOLS", {"buildah": "/none/buildah", "here": str(ROOT)})
    with pytest.raises(start_images.Failed, match=r"no apt-get to install what is missing: buildah$"):
        build_images.require_tools()


def test_a_program_that_does_not_start_or_ends_wrongly_is_told_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(start_images.Failed, match=r"exit code 3 of sh -c echo why; exit 3\nwhy"):
        start_images.run("sh", "-c", "echo why; exit 3")
    with pytest.raises(start_images.Failed, match="/none/at/all cannot be called: No such file"):
        start_images.run("/none/at/all")
    with start_images.running("sh", "-c", "echo why; exit 3") as program:
        with pytest.raises(start_images.Failed, match=r"exit code 3, where 0 is right, of sh .*\nwhy"):
            program.ended()
        with pytest.raises(start_images.Failed, match="exit code 3, not ready, of sh"):
            program.until(lambda: False, "ready")
        assert program.ended(3) == "why\n"
    with (
        start_images.running("sh", "-c", "echo Traceback") as program,
        pytest.raises(start_images.Failed, match="Traceback"),
    ):
        program.ended()
