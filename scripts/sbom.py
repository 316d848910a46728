"""The bill of materials of an image, as CycloneDX, from the lock file: `scripts/sbom.py grove-operator`.

Lists what we put into the image: our code and every pinned Python package, with who needs whom. What the base
image brings is told by the SBOM that `docker buildx build --sbom` attaches. The same checkout gives the same
bytes.
"""

import argparse
import hashlib
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
OPERATOR: Final = "grove-operator"
WAITING: Final = "grove-initc"
_PINNED: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_VIA: Final = re.compile(r"^\s+# {1,3}(?:via )?(?P<name>[A-Za-z0-9._-]+)")
_REMOVED: Final = re.compile(r"pip uninstall --yes (?P<names>[^\\&\n]+)")


@dataclass
class Package:
    """One pinned package, and the packages that need it."""

    name: str
    version: str
    needed_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{self.version}"


def packages(lock: str) -> Iterator[Package]:
    """What a lock file of `make lock` pins."""
    present: Package | None = None
    for line in lock.splitlines():
        if pinned := _PINNED.match(line):
            if present is not None:
                yield present
            elsewhere = "sys_platform == 'win32'" in line
            present = None if elsewhere else Package(pinned["name"], pinned["version"])
        elif present is not None and (via := _VIA.match(line)) and via["name"] != "via":
            present.needed_by.append(via["name"])
    if present is not None:
        yield present


def removed(dockerfile: str) -> set[str]:
    """The packages that the Dockerfile takes out of the image again."""
    return {name for match in _REMOVED.finditer(dockerfile) for name in match["names"].split()}


def bill(image: str, lock: str, dockerfile: str, version: str) -> dict[str, Any]:
    """The document for one image; the init container holds no package at all."""
    gone = removed(dockerfile)
    found = [each for each in packages(lock) if each.name not in gone] if image == OPERATOR else []
    names = {each.name: each.purl for each in found}
    root = f"pkg:generic/{image}@{version}"
    needs: dict[str, list[str]] = {root: [], **{each.purl: [] for each in found}}
    for each in found:
        for user in each.needed_by or [""]:
            needs[names.get(user, root)].append(each.purl)
    digest = hashlib.sha256(lock.encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{root}#{digest}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": root,
                "name": image,
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
            "properties": [{"name": "grove:requirements.lock:sha256", "value": digest}],
        },
        "components": [
            {
                "type": "library",
                "bom-ref": each.purl,
                "name": each.name,
                "version": each.version,
                "purl": each.purl,
            }
            for each in found
        ],
        "dependencies": [{"ref": ref, "dependsOn": sorted(set(on))} for ref, on in needs.items()],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", choices=(OPERATOR, WAITING))
    asked = parser.parse_args(arguments)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    json.dump(bill(asked.image, lock, dockerfile, version), sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
