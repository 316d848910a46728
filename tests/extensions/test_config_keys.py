"""A key of a profile's `config` that its backend does not read is a warning that names what to write instead."""

from pathlib import Path

import pytest
from tests.extensions.packages import backend_source, install

from grove.cli.main import main
from grove.cli.operating import configuration_from, warnings_about

HEAD = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"
MISSPELT = (
    "scheduler: {profiles: [{name: kai-scheduler}, {name: default-scheduler, config: {gangSchedulng: x}}]}"
)
WARNING = "scheduler.profiles[1].config.gangSchedulng: ignored, unknown field; did you mean gangScheduling?"


def warned(folder: Path, text: str) -> list[str]:
    file = folder / "config.yaml"
    file.write_text(HEAD + text)
    return [
        each.removeprefix(f"{file}: ") for each in warnings_about(str(file), configuration_from(str(file)))
    ]


def profile(config: str, name: str = "default-scheduler") -> str:
    return f"scheduler: {{profiles: [{{name: {name}, config: {{{config}}}}}]}}"


AT = "scheduler.profiles[0].config"
CASES = {
    "all keys are known": (profile("gangScheduling: Required, mode: Flat"), []),
    "no config": ("scheduler: {profiles: [{name: volcano}]}", []),
    "a letter is missing": (MISSPELT, [WARNING]),
    "another case": (profile("Mode: Flat"), [f"{AT}.Mode: ignored, unknown field; did you mean mode?"]),
    "nothing is near": (
        profile("zzz: 1", "kai-scheduler"),
        [f"{AT}.zzz: ignored, unknown field; the backend kai reads queue, stalenessGracePeriod"],
    ),
    "the values are wrong too": (
        profile("networkTopolgy: Auto, networkTopology: 3", "volcano"),
        [f"{AT}.networkTopolgy: ignored, unknown field; did you mean networkTopology?"],
    ),
    "other keys are unknown too": (
        f"logLevle: info\n{profile('quotas: a', 'koord-scheduler')}",
        [
            "logLevle: ignored, unknown field; did you mean logLevel?",
            f"{AT}.quotas: ignored, unknown field; did you mean quota?",
        ],
    ),
}


@pytest.mark.parametrize(("text", "want"), CASES.values(), ids=CASES)
def test_each_key_that_nobody_reads_is_named_with_the_nearest_known_one(
    tmp_path: Path, text: str, want: list[str]
) -> None:
    assert warned(tmp_path, text) == want


THIRD_PARTIES = {
    "one that has no traits": ("traits = None", []),
    "one that does not say its keys": (
        """
        def traits(self, context):
            from grove.backends.base import Traits

            return Traits()
        """,
        [],
    ),
    "one that reads no key": (
        """
        def traits(self, context):
            from grove.backends.base import Traits

            return Traits(config_keys=frozenset())
        """,
        [f"{AT}.queue: ignored, unknown field; the backend acme reads none"],
    ),
}


@pytest.mark.parametrize(("body", "want"), THIRD_PARTIES.values(), ids=THIRD_PARTIES)
def test_keys_of_a_third_party_are_compared_only_if_it_says_which_it_reads(
    site: Path, tmp_path: Path, body: str, want: list[str]
) -> None:
    install(site, "acme-grove", backend_source("acme", body=body), points={"acme": "acme_grove:Backend"})
    assert warned(tmp_path, profile("queue: a", "acme")) == want


@pytest.mark.parametrize("command", [("run",), ("backend", "run", "kai"), ("backend", "check", "kai")])
def test_commands_that_read_a_configuration_print_the_warning(
    tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + MISSPELT.replace("{name: kai-scheduler}", "{name: kai-scheduler, external: true}"))
    # There is no such cluster: what follows the warning does not matter here.
    assert main([*command, "--config", str(file), "--kubeconfig", str(tmp_path / "nowhere")]) == 1
    assert f"grove: {file}: {WARNING}" in capsys.readouterr().err.splitlines()
