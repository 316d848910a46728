"""Build what krew installs: `python scripts/krew.py https://example.com/v0.1.0/kubectl-grove.tar.gz`.

Writes the archive of this checkout and the manifest that names it, its address as given and its SHA-256, into
`dist`, or the folder of `--out`. The same checkout and the same Python give the same bytes: files in order,
owned by nobody, at one time. Uploads nothing.
"""

import argparse
import gzip
import hashlib
import io
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
ARCHIVE: Final = "kubectl-grove.tar.gz"
MANIFEST: Final = "grove.yaml"
LAUNCHER: Final = "kubectl-grove"
#: The start of 1980: some programs complain about files of 1970.
TIME: Final = 315_532_800
_HEAD: Final = "# Written by scripts/krew.py for Grove {}."


def members(root: Path, version: str) -> Iterator[tuple[str, bytes, int]]:
    """Name, content and mode of each file."""
    krew = root / "deploy" / "krew"
    yield LAUNCHER, (krew / "launcher.py").read_bytes(), 0o755
    yield "LICENSE", (root / "LICENSE").read_bytes(), 0o644
    yield "VERSION", f"{version}\n".encode(), 0o644
    yield "requirements.lock", (root / "requirements.lock").read_bytes(), 0o644
    source = root / "src"
    for path in (source / "grove").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"lib/{path.relative_to(source).as_posix()}", path.read_bytes(), 0o644


def archive(root: Path, version: str) -> bytes:
    """The archive; neither the machine nor the hour shows in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content, mode in sorted(members(root, version)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, TIME
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), compresslevel=9, mtime=0)


def manifest(template: str, *, version: str, uri: str, sha256: str) -> str:
    """The manifest of the repository with an archive in place of the placeholders."""
    lines = template[template.index("apiVersion:") :].splitlines()
    for field, value in (("version", f"v{version}"), ("uri", uri), ("sha256", f'"{sha256}"')):
        (place,) = [place for place, line in enumerate(lines) if line.lstrip().startswith(f"{field}: ")]
        lines[place] = f"{lines[place].partition(field)[0]}{field}: {value}"
    return "\n".join([_HEAD.format(version), *lines, ""])


def build(root: Path, uri: str, out: Path) -> Sequence[Path]:
    """Write both files; their paths."""
    version = _version(root)
    packed = archive(root, version)
    template = (root / "deploy" / "krew" / MANIFEST).read_text(encoding="utf-8")
    text = manifest(template, version=version, uri=uri, sha256=hashlib.sha256(packed).hexdigest())
    out.mkdir(parents=True, exist_ok=True)
    written = out / ARCHIVE, out / MANIFEST
    written[0].write_bytes(packed)
    written[1].write_text(text, encoding="utf-8")
    return written


def _version(root: Path) -> str:
    text = (root / "src" / "grove" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__.*= "(.*)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def _uri(text: str) -> str:
    if not re.fullmatch(r"https://\S+\.tar\.gz", text):
        raise argparse.ArgumentTypeError(f"must be https://... and end in .tar.gz; got {text!r}")
    return text


def main() -> int:
    """Build, and say where it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("uri", type=_uri, help="where people will download the archive")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder to write into (dist)")
    given = parser.parse_args()
    for path in build(ROOT, given.uri, given.out):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
