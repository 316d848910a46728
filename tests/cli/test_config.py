"""`grove config`: every mistake at once, the defaults, what a field means."""

import json
from pathlib import Path

import pytest
import yaml

from grove.api.config import OperatorConfiguration, load

from .conftest import Grove

HEADER = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"

WRONG = """\
apiVersion: operator.config.grove.io/v1
kind: OperatorConfiguration
logLevel: loud
runtimeClientConnection: {burst: many}
server: {metrics: {port: 70000}, webhoks: {}}
leaderElection: {enabled: true, renewDeadline: 20s}
scheduler:
  defaultProfileName: nobody
  profiles:
  - {name: slurm}
  - {name: kai-scheduler}
  - {name: kai}
  - {name: nomad}
"""


def written(folder: Path, text: str) -> str:
    file = folder / "config.yaml"
    file.write_text(text)
    return str(file)


def test_everything_that_is_wrong_is_named_at_once_with_its_path(grove: Grove, tmp_path: Path) -> None:
    file = written(tmp_path, WRONG)
    ran = grove("config", "check", file)
    assert (ran.code, ran.out) == (1, "")
    fields = [line.removeprefix(f"{file}: ").partition(": ")[0] for line in ran.err.splitlines()[:-1]]
    assert fields == [
        "apiVersion",
        "runtimeClientConnection.burst",
        "logLevel",
        "leaderElection.leaseDuration",
        "server.metrics.port",
        "scheduler.profiles[0].name",
        "scheduler.profiles[2].name",
        "scheduler.profiles[3].name",
        "scheduler.defaultProfileName",
        "server.webhoks",
    ]
    assert ran.err.splitlines()[-1] == f"grove: {file}: the operator would refuse it"


def test_the_operator_refuses_the_same_in_one_sentence(grove: Grove, tmp_path: Path) -> None:
    ran = grove("run", "--config", written(tmp_path, WRONG))
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1
    assert "logLevel: must be one of" in ran.err
    assert "scheduler.profiles[3].name: 'nomad' is not a scheduler backend" in ran.err


def test_a_list_of_the_wrong_type_hides_no_other_mistake(grove: Grove, tmp_path: Path) -> None:
    file = written(tmp_path, HEADER + "scheduler: {profiles: [kai]}\nlogFormat: xml\n")
    ran = grove("config", "check", file, "-o", "json")
    assert [each["field"] for each in json.loads(ran.out)["errors"]] == ["scheduler.profiles[0]", "logFormat"]


def test_a_file_that_is_valid_says_which_schedulers_it_enables(grove: Grove, tmp_path: Path) -> None:
    file = written(tmp_path, HEADER + "scheduler: {profiles: [{name: kai-scheduler}]}\n")
    ran = grove("config", "check", file)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{file}: valid; enabled schedulers: default, kai\n"


@pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 1)])
def test_unknown_keys_are_named_and_refused_only_when_asked(
    grove: Grove, tmp_path: Path, strict: tuple[str, ...], code: int
) -> None:
    file = written(tmp_path, HEADER + "authorizer: {reconcilerServiceAccountUserName: me}\n")
    ran = grove("config", "check", file, *strict)
    assert ran.code == code
    assert f"{file}: authorizer.reconcilerServiceAccountUserName: ignored, unknown field" in ran.err


NOTHING_SERVED = (
    "debugging.enableProfiling: ignored, nothing is served: the profiles are the Go runtime's, which this operator "
    "does not have"
)


@pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 1)])
def test_profiles_that_are_asked_for_and_not_served_are_told(
    grove: Grove, tmp_path: Path, strict: tuple[str, ...], code: int
) -> None:
    file = written(tmp_path, HEADER + "debugging: {enableProfiling: true, pprofBindHost: 0.0.0.0}\n")
    ran = grove("config", "check", file, *strict)
    assert ran.code == code
    assert ran.err.splitlines()[0] == f"{file}: {NOTHING_SERVED}"


@pytest.mark.parametrize("section", ["", "debugging: {enableProfiling: false, pprofBindPort: 2753}\n"])
def test_profiles_that_nobody_asks_for_are_not_mentioned(grove: Grove, tmp_path: Path, section: str) -> None:
    ran = grove("config", "check", written(tmp_path, HEADER + section), "--strict")
    assert (ran.code, ran.err) == (0, "")


def test_the_operator_says_at_its_start_that_no_profiles_are_served(grove: Grove, tmp_path: Path) -> None:
    file = written(tmp_path, HEADER + "debugging: {enableProfiling: true}\n")
    ran = grove("run", "--config", file, "--kubeconfig", str(tmp_path / "none"))
    assert ran.err.splitlines()[0] == f"grove: {file}: {NOTHING_SERVED}"


def test_the_defaults_are_a_file_that_means_the_same(grove: Grove, tmp_path: Path) -> None:
    ran = grove("config", "defaults")
    assert load(ran.out) == load("")
    assert yaml.safe_load(ran.out)["logLevel"] == OperatorConfiguration().log_level
    assert grove("config", "check", written(tmp_path, ran.out)).code == 0


def test_a_field_is_explained_with_its_type_and_default(grove: Grove) -> None:
    ran = grove("config", "explain", "server.webhooks.port")
    assert ran.out == "server.webhooks.port  (integer, default 2750)\n    Port.\n"


def test_a_section_is_explained_with_what_is_below(grove: Grove) -> None:
    ran = grove("config", "explain", "scheduler.profiles.config")
    assert ran.out.startswith("scheduler.profiles[].config  (object)\n")
    assert "leaderElection.leaseDuration" in grove("config", "explain").out


def test_a_field_that_does_not_exist_has_a_neighbour(grove: Grove) -> None:
    ran = grove("config", "explain", "server.webhook.port")
    assert ran.code == 1
    assert "did you mean server.webhooks.port?" in ran.err
