"""A real API server refuses a definition without a version that was stored, until what the plan says is done."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.processes import KUBECTL, LAUNCH, kubectl
from tests.e2e.conftest import asked
from tests.e2e.judges import MINORS

from grove.api.crd import definitions
from grove.meta import Manifest
from grove.real import Options, RealControlPlane
from grove.testing import make

pytestmark = pytest.mark.real

SETS = "podcliquesets.grove.io"


class Upgrade:
    """What somebody does at the command line who is about to upgrade."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig = kubeconfig
        self._file = folder / "file.json"

    def kubectl(self, *command: str, manifests: list[Manifest]) -> str:
        self._file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
        return kubectl(self._kubeconfig, *command, "-f", str(self._file))

    def plan(self) -> tuple[int, dict[str, Manifest]]:
        """How `grove upgrade plan` ends, and its findings by their checks."""
        command = [*LAUNCH, "upgrade", "plan", "-o", "json", "--kubeconfig", str(self._kubeconfig)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        return ran.returncode, {each["check"]: each for each in json.loads(ran.stdout)["findings"]}

    def carry_out(self, command: str) -> None:
        path = f"{KUBECTL.parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "KUBECONFIG": str(self._kubeconfig), "HOME": "/nonexistent"}
        ran = subprocess.run(
            ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr


def with_another(definition: Manifest, *, stored: str) -> Manifest:
    """The definition of a release that serves v1beta1 too, and stores one of them."""
    found = copy.deepcopy(definition)
    (ours,) = found["spec"]["versions"]
    found["spec"]["versions"] = [
        {**copy.deepcopy(ours), "name": name, "storage": name == stored} for name in ("v1alpha1", "v1beta1")
    ]
    return found


@pytest.mark.parametrize("minor", MINORS)
def test_a_stored_version_keeps_our_definition_out_until_the_commands_of_the_plan_are_done(
    minor: str, tmp_path: Path
) -> None:
    asked(minor)
    admin = tmp_path / "admin"

    def story() -> None:
        upgrade, ours = Upgrade(admin, tmp_path), definitions()
        (sets,) = [each for each in ours if each["metadata"]["name"] == SETS]
        upgrade.kubectl("apply", "--server-side", manifests=ours)
        kubectl(admin, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        assert upgrade.plan()[0] == 0
        for stored in ("v1beta1", "v1alpha1"):
            other = with_another(sets, stored=stored)
            upgrade.kubectl("apply", "--server-side", manifests=[other])
            if stored == "v1beta1":
                kubectl(admin, "wait", "--for=condition=Established", "--timeout=60s", f"crd/{SETS}")
                upgrade.kubectl("create", manifests=[make.cliqueset_manifest("train")])
        code, found = upgrade.plan()
        assert (code, found["stored versions"]["state"]) == (1, "failed")
        with pytest.raises(
            AssertionError, match=r"status\.storedVersions.*v1beta1.*missing from spec\.versions"
        ):
            upgrade.kubectl("apply", "--server-side", manifests=[sets])
        upgrade.carry_out(found["stored versions"]["fix"])
        upgrade.kubectl("apply", "--server-side", manifests=[sets])
        code, found = upgrade.plan()
        assert (code, found["definitions"]["state"]) == (0, "ok")
        assert "train" in kubectl(admin, "get", SETS, "-o", "name")

    async def beside_a_cluster() -> None:
        async with RealControlPlane(Options(minor=minor, say=lambda _: None)) as plane:
            plane.kubeconfig(admin)
            await asyncio.to_thread(story)

    asyncio.run(beside_a_cluster())
