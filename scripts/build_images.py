"""Build both images without a container engine, and start them: `make images`.

The base is made of Debian's packages (debootstrap), the images are built of deploy/Dockerfile (buildah),
and what is in them is started by `start_images.py`. Needs root. All of it happens in namespaces of its own
for mounts and processes and in one temporary folder (TMPDIR says where; it takes 2 GB), so that nothing is
left at the end, also of one that was interrupted. pip reaches its index with the settings that it has here;
no image keeps any of them.
"""

import argparse
import ast
import contextlib
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from scripts import sbom, start_images  # noqa: E402
from scripts.start_images import Failed, Image, run, timed  # noqa: E402

#: Its Python is of the minor that the Dockerfile's own bases have.
SUITE: Final = "trixie"
PACKAGES: Final = "python3,python3-venv,python-is-python3,ca-certificates"
BASE: Final = "localhost/base"
SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: What is needed, by the package of Debian that has it.
TOOLS: Final[Mapping[str, str]] = {
    "buildah": "/usr/bin/buildah",
    "debootstrap": "/usr/sbin/debootstrap",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "util-linux": "/usr/bin/unshare",
}
#: Where buildah keeps something of every image, whatever it is told.
CACHE: Final = Path("/var/lib/containers")
#: Where pip looks for settings of the whole machine.
PIP_FOLDER: Final = "/etc/xdg/pip"
_PIP_KEPT: Final = (
    "index-url",
    "extra-index-url",
    "trusted-host",
    "proxy",
    "timeout",
    "default-timeout",
    "cert",
)
_PIP_LINE: Final = re.compile(r"^(?P<section>global|install|:env:)\.(?P<key>[a-z-]+)=(?P<value>['\"].*)$")


def pip_settings(listed: str) -> dict[str, str]:
    """What `pip config list` says about reaching an index; the environment wins, as with pip."""
    lines = [line for each in listed.splitlines() if (line := _PIP_LINE.match(each))]
    found: dict[str, str] = {}
    for section in ("global", "install", ":env:"):
        for line in lines:
            if line["section"] == section and line["key"] in _PIP_KEPT:
                found[line["key"]] = str(ast.literal_eval(line["value"]))
    return found


def pip_file(settings: Mapping[str, str]) -> str:
    """The settings as pip reads them; each of several values has a line of its own."""
    lines = (f"{key} = " + "\n    ".join(value.split()) for key, value in settings.items())
    return "\n".join(["[global]", *lines]) + "\n"


def pip_folder(parent: Path) -> Path:
    """A folder with pip's settings, and the authorities that this machine trusts."""
    folder = parent / "pip"
    folder.mkdir()
    settings = pip_settings(run(sys.executable, "-m", "pip", "config", "list"))
    authorities = settings.pop("cert", None) or ssl.get_default_verify_paths().cafile
    if authorities and Path(authorities).is_file():
        shutil.copyfile(authorities, folder / "authorities.crt")
        settings["cert"] = f"{PIP_FOLDER}/authorities.crt"
    (folder / "pip.conf").write_text(pip_file(settings), encoding="utf-8")
    return folder


@dataclass(frozen=True, slots=True)
class Builder:
    """buildah, with everything that it keeps in one folder."""

    folder: Path

    def call(self, *words: str) -> str:
        """What a command of buildah prints."""
        kept = ("--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run"))
        # vfs copies whole layers, and so it works on every file system, in a container too.
        return run("buildah", *kept, "--storage-driver", "vfs", *words)

    def mounted(self, image: str) -> tuple[str, Path]:
        """A container of an image, and where its files are."""
        container = self.call("from", "--pull=never", image).split()[-1]
        return container, Path(self.call("mount", container).strip())

    def base(self, suite: str, mirror: str) -> int:
        """Make the base of Debian's packages; returns how many bytes its files have."""
        container, root = self.mounted("scratch")
        choice = ("--variant=minbase", f"--include={PACKAGES}", "--force-check-gpg")
        run("debootstrap", *choice, suite, str(root), *([mirror] if mirror else []))
        for archive in (root / "var/cache/apt/archives").glob("*.deb"):
            archive.unlink()
        size = start_images.weight(root)
        self.call("config", "--env", f"PATH={SEARCHED}", container)
        self.call("commit", container, BASE)
        self.call("rm", container)
        return size

    def image(self, target: str, *more: str) -> Image:
        """Build a target of the Dockerfile; its files are there to be started."""
        bases = [f"--build-arg={name}={BASE}" for name in ("PYTHON_IMAGE", "INITC_IMAGE")]
        how = ("--isolation=chroot", "--pull=never", *bases, *more)
        name = f"localhost/{target}"
        self.call("bud", *how, f"--target={target}", f"--tag={name}", "--file=deploy/Dockerfile", str(ROOT))
        _, root = self.mounted(name)
        config: dict[str, Any] = json.loads(self.call("inspect", "--type=image", name))["OCIv1"]["config"]
        return Image(target, root, config["User"], tuple(config["Entrypoint"]), tuple(config["Env"]))


def build_and_start(folder: Path, suite: str, mirror: str) -> None:
    """All of it, in namespaces of its own; raises Failed."""
    hidden = folder / "cache"
    hidden.mkdir()
    run("mount", "--bind", str(hidden), str(CACHE))
    builder = Builder(folder)
    with timed(f"a base of Debian's {suite}, with Python"):
        base = builder.base(suite, mirror)
    # The settings are there for the stage that installs packages, and that stage is in no image.
    settings = f"--volume={pip_folder(folder)}:{PIP_FOLDER}:ro"
    with timed(f"the image {sbom.OPERATOR}"):
        operator = builder.image(sbom.OPERATOR, settings)
    with timed(f"the image {sbom.WAITING}"):
        waiting = builder.image(sbom.WAITING)
    for image in (operator, waiting):
        added = start_images.weight(image.root) - base
        print(f"ok  {image.name} adds {added / 1e6:.2f} MB to a base of {base / 1e6:.0f} MB", flush=True)
    start_images.check(operator, waiting, folder)


def require_tools() -> None:
    """Install what is missing, where apt-get is there to do it; raises Failed."""
    if os.geteuid() != 0:
        raise Failed("a base of Debian's packages and mounts need root: run it as root (sudo make images)")
    missing = [
        name for name, path in TOOLS.items() if not (Path(path).exists() or shutil.which(Path(path).name))
    ]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise Failed(f"there is no apt-get to install what is missing: {', '.join(missing)}")
    print(f"installing what is missing, with apt-get: {', '.join(missing)}", flush=True)
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", environment=quietly)
    run("apt-get", "install", "--yes", "--no-install-recommends", *missing, environment=quietly)


@contextlib.contextmanager
def present(folder: Path) -> Iterator[None]:
    """A folder that is there for a while, to be mounted on; one that was there before stays."""
    try:
        folder.mkdir()
    except FileExistsError:
        yield
        return
    try:
        yield
    finally:
        folder.rmdir()


def in_namespaces(suite: str, mirror: str) -> int:
    """Run this script once more, where its mounts and processes end with it; returns its exit code."""
    alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    with tempfile.TemporaryDirectory(prefix="grove-images-") as folder, present(CACHE):
        again = (sys.executable, __file__, "--suite", suite, "--mirror", mirror, "--inside", folder)
        # A session of its own: Ctrl-C is for this process, which ends the other and then removes the folder.
        # What programs of the other leave behind when they are killed is in the folder, too.
        environment = {**os.environ, "TMPDIR": folder}
        process = subprocess.Popen((*alone, *again), env=environment, start_new_session=True)
        try:
            return process.wait()
        finally:
            if process.poll() is None:
                # The first process inside ends after all others: nobody writes while the folder is removed.
                start_images.signal_inside(process, signal.SIGKILL)
                process.wait()


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default=SUITE, help="the release of Debian (%(default)s)")
    parser.add_argument("--mirror", default="", help="where its packages are (as debootstrap finds them)")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    try:
        if asked.inside is not None:
            build_and_start(asked.inside, asked.suite, asked.mirror)
            return 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _stop)
        require_tools()
        return in_namespaces(asked.suite, asked.mirror)
    except Failed as failure:
        print(f"build_images.py: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
