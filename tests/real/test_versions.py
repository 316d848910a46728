"""The pins in the code and in the tool modules are the same ones."""

from __future__ import annotations

import re

import pytest

from grove.real import Options, RealControlPlane
from grove.real.build import MODULES
from grove.real.failure import NotInstalled
from grove.real.third_party import THIRD_PARTIES, chosen, third_party
from grove.real.versions import (
    ETCD_VERSION,
    GO_MINIMUM,
    MINORS,
    RELEASES,
    Tool,
    cainjector,
    cert_manager,
    etcd_tool,
    helm_tool,
    prometheus_operator,
    promtool,
    release,
    tools,
)


@pytest.mark.parametrize("minor", MINORS)
def test_a_tool_module_pins_the_version_that_the_code_names(minor: str) -> None:
    text = (MODULES / f"k8s-{minor}" / "go.mod").read_text()
    assert re.findall(r"^\tk8s\.io/kubernetes v(\S+)", text, re.M) == [RELEASES[minor].version]


@pytest.mark.parametrize("minor", MINORS)
def test_every_staging_module_follows_the_version_of_its_minor(minor: str) -> None:
    text = (MODULES / f"k8s-{minor}" / "go.mod").read_text()
    replaced = re.findall(r"^\tk8s\.io/(\S+) => k8s\.io/(\S+) v(\S+)$", text, re.M)
    want = RELEASES[minor].version.replace("1.", "0.", 1)
    assert len(replaced) >= 29
    assert all(left == right and version == want for left, right, version in replaced)


@pytest.mark.parametrize("minor", MINORS)
def test_a_tool_module_names_exactly_the_programs_that_are_built(minor: str) -> None:
    text = (MODULES / f"k8s-{minor}" / "go.mod").read_text()
    named = set(re.findall(r"^\t(k8s\.io/kubernetes/cmd/\S+)$", text, re.M))
    assert named == {tool.package for tool in tools(minor) if tool.name != "etcd"}


def test_etcd_is_pinned_once() -> None:
    text = (MODULES / "etcd" / "go.mod").read_text()
    assert re.findall(r"^\tgo\.etcd\.io/etcd/server/v3 v(\S+)", text, re.M) == [ETCD_VERSION]


def test_promtool_is_pinned_once_and_built_without_clouds() -> None:
    text, tool = (MODULES / "prometheus" / "go.mod").read_text(), promtool()
    assert re.findall(rf"^\t{re.escape(tool.source)} v(\S+)", text, re.M) == [tool.version]
    assert re.findall(r"^tool (\S+)$", text, re.M) == [tool.package]
    assert tool.tags == ("remove_all_sd",)


def test_helm_is_pinned_to_the_version_that_the_code_names() -> None:
    tool = helm_tool()
    text = (MODULES / tool.module / "go.mod").read_text()
    assert re.findall(rf"^\t{re.escape(tool.source)} v(\S+)", text, re.M) == [tool.version]
    assert f"\ntool {tool.package}\n" in text


@pytest.mark.parametrize("tool", [cert_manager(), cainjector()], ids=lambda tool: tool.name)
def test_cert_manager_is_pinned_to_the_version_that_the_code_names(tool: Tool) -> None:
    text = (MODULES / tool.module / "go.mod").read_text()
    assert re.findall(rf"^\t{re.escape(tool.source)} v(\S+)", text, re.M) == [tool.version]
    assert (MODULES / tool.module / tool.package / "main.go").exists()


def test_the_kinds_of_the_prometheus_operator_are_pinned_to_the_version_that_the_code_names() -> None:
    wanted = prometheus_operator()
    folder = MODULES / wanted.module
    assert f"\nrequire {wanted.source} v{wanted.version}\n" in (folder / "go.mod").read_text()
    sums = [line.split()[:2] for line in (folder / "go.sum").read_text().splitlines()]
    assert sums == [[wanted.source, f"v{wanted.version}"], [wanted.source, f"v{wanted.version}/go.mod"]]


@pytest.mark.parametrize("folder", sorted(path.name for path in MODULES.iterdir()))
def test_no_tool_module_needs_a_newer_go_than_is_asked_for(folder: str) -> None:
    module = MODULES / folder
    needed = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.M)
    assert needed is not None
    assert (int(needed[1]), int(needed[2])) <= GO_MINIMUM
    assert (module / "go.sum").stat().st_size > 0


def test_the_version_is_written_into_kubernetes_and_not_into_etcd() -> None:
    flags = {tool.name: tool.linker_flags for tool in tools("1.36")}
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"-X={package}.gitVersion=v1.36.4" in flags["kube-apiserver"]
        assert f"-X={package}.gitMinor=36" in flags["kube-apiserver"]
    assert flags["etcd"] == etcd_tool().linker_flags == "-s -w"


def test_an_unknown_minor_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NotInstalled, match=r"'1\.34' is not among .*1\.35, 1\.36, 1\.37"):
        release("1.34")


@pytest.mark.parametrize("name", THIRD_PARTIES)
def test_a_scheduler_is_pinned_to_the_version_that_the_code_names(name: str) -> None:
    scheduler = third_party(name)
    text = (MODULES / name / "go.mod").read_text()
    for tool in scheduler.programs:
        assert re.findall(rf"^\t{re.escape(tool.source)} v(\S+)", text, re.M) == [scheduler.version]
        assert tool.package == "." or re.search(rf"^(\t|tool ){re.escape(tool.package)}$", text, re.M)
    assert set(scheduler.minors) <= set(MINORS)


def test_schedulers_are_chosen_by_name_or_all_at_once() -> None:
    assert [each.name for each in chosen(("volcano", "kai", "kai"))] == ["volcano", "kai"]
    assert chosen(("all",)) == tuple(THIRD_PARTIES.values())
    assert chosen(()) == ()
    with pytest.raises(NotInstalled, match=r"'slurm' is not among .*kai, volcano, koordinator, yunikorn"):
        chosen(("slurm",))


def test_a_minor_that_a_scheduler_is_not_run_on_is_refused_with_those_it_is() -> None:
    with pytest.raises(NotInstalled, match=r"YuniKorn 1\.8\.0 is not run on Kubernetes 1\.37 .*choose 1\.35"):
        third_party("yunikorn").check_minor("1.37")
    with pytest.raises(NotInstalled, match=r"YuniKorn 1\.8\.0 is not run on Kubernetes 1\.36"):
        RealControlPlane(Options(minor="1.36", beside=("kai", "yunikorn")))
