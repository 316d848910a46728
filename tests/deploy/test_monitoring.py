"""Alerts and dashboard name metrics that exist, are explained, and do what they say: promtool carries them out."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from grove.meta import Manifest
from grove.real.binaries import Locator
from grove.real.versions import promtool
from grove.runtime.metric_table import TABLE

ROOT: Final = Path(__file__).resolve().parents[2]
MONITORING: Final = ROOT / "deploy" / "monitoring"
RUNBOOKS: Final = "docs/guides/runbooks.md"
#: What every Python program tells of itself.
COMMON: Final = {"process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total"}


def rules() -> dict[str, Manifest]:
    groups = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def expressions() -> Iterator[str]:
    """Every query of the dashboard, with a time in place of Grafana's variable."""
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "5m")


def metrics_in(expression: str) -> set[str]:
    """The metrics that a query names; the parts of a histogram as the histogram."""
    bare = re.sub(r'"[^"]*"', "", expression)
    named = set(re.findall(r"\b(?:grove|process)_\w+", bare))
    histograms = {name for name, row in TABLE.items() if row.kind == "histogram"}
    return {
        name.removesuffix("_bucket") if name.removesuffix("_bucket") in histograms else name for name in named
    }


def labels_in(expression: str) -> set[str]:
    """The labels that a query matches and groups by."""
    matched = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    grouped = [
        each for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for each in group.split(",")
    ]
    return {label.strip() for label in [*matched, *grouped]}


QUERIES: Final = [*(rule["expr"] for rule in rules().values()), *expressions()]
#: What Prometheus itself adds to what it scrapes in a cluster, and to histograms.
ADDED: Final = {"job", "instance", "namespace", "pod", "le"}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_metrics_and_labels_that_exist(query: str) -> None:
    named = metrics_in(query)
    assert named
    assert named - set(TABLE) - COMMON == set()
    known = {label for name in named if name in TABLE for label in TABLE[name].labels}
    assert labels_in(query) - known - ADDED == set()


def test_every_metric_that_tells_of_gangs_is_on_the_dashboard() -> None:
    shown = set().union(*(metrics_in(query) for query in expressions()))
    gangs = {name for name in TABLE if name.startswith("grove_gang")}
    assert gangs - shown == set()


@pytest.mark.parametrize("name", rules())
def test_an_alert_says_what_it_is_how_bad_and_what_to_do(name: str) -> None:
    rule = rules()[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}#{name.lower()}"
    assert re.search(rf"^## {name}$", (ROOT / RUNBOOKS).read_text(), re.MULTILINE)


def test_the_runbooks_are_about_alerts_that_exist() -> None:
    assert set(re.findall(r"^## (Grove\w+)$", (ROOT / RUNBOOKS).read_text(), re.MULTILINE)) == set(rules())


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for path in (MONITORING / "tests").glob("*.yaml"):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for each in test["alert_rule_test"]:
                (fires if each["exp_alerts"] else silent).add(each["alertname"])
    assert fires == silent == set(rules())


@pytest.fixture(scope="module")
def tool() -> Path:
    found = Locator().find(promtool())
    if found is None:
        pytest.skip(
            "promtool is not there: `make alerts` builds it from the Go module registry, and runs this"
        )
    return found.path


def run(*command: object) -> None:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_rules(tool: Path) -> None:
    run(tool, "check", "rules", "--lint-fatal", MONITORING / "alerts.yaml")


@pytest.mark.parametrize("path", sorted((MONITORING / "tests").glob("*.yaml")), ids=lambda path: path.stem)
def test_alerts_fire_and_are_silent_as_their_tests_say(tool: Path, path: Path) -> None:
    run(tool, "test", "rules", path)


def test_prometheus_understands_every_query_of_the_dashboard(tool: Path, tmp_path: Path) -> None:
    records = [{"record": f"dashboard:{index}", "expr": expr} for index, expr in enumerate(expressions())]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
    run(tool, "check", "rules", file)
