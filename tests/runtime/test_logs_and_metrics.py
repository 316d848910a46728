"""What is said and counted."""

import io
import json
import logging

import pytest

from grove import __version__
from grove.meta import Key
from grove.runtime import logs
from grove.runtime.metrics import Metrics


def test_a_json_line_has_the_message_its_fields_and_who_was_at_work() -> None:
    stream = io.StringIO()
    logs.configure(level="info", format="json", stream=stream)
    with logs.bound(controller="clique", key="ns/a"):
        logging.getLogger("grove.test").info(
            "gate opened", extra={"pod": Key("ns", "p"), "count": 3, "names": ["x"], "level": "high"}
        )
        logging.getLogger("grove.test").debug("not wanted")
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "info",
        "logger": "grove.test",
        "message": "gate opened",
        "controller": "clique",
        "key": "ns/a",
        "pod": "ns/p",
        "count": 3,
        "names": ["x"],
        "level_": "high",
    }


def test_an_exception_stays_on_the_line_of_its_record() -> None:
    stream = io.StringIO()
    logs.configure(format="json", stream=stream)
    try:
        raise ValueError("mine")
    except ValueError:
        logging.getLogger("grove.test").exception("reconcile failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: mine" in json.loads(line)["exception"]


def test_a_text_line_is_for_people() -> None:
    stream = io.StringIO()
    logs.configure(level="debug", format="text", stream=stream)
    with logs.bound(key="ns/a"):
        logging.getLogger("grove.test").debug("look again", extra={"why": "2 of 8 missing", "seconds": 5})
    assert stream.getvalue()[13:] == 'debug   look again  key=ns/a  why="2 of 8 missing"  seconds=5\n'


def test_a_list_is_names_with_commas_for_people_and_a_list_for_machines() -> None:
    people, machines = io.StringIO(), io.StringIO()
    logs.configure(format="text", stream=people)
    logging.getLogger("grove.test").info("discovered", extra={"backends": ["default", "kai"]})
    logs.configure(format="json", stream=machines)
    logging.getLogger("grove.test").info("discovered", extra={"backends": ["default", "kai"]})
    assert people.getvalue()[13:] == 'info    discovered  backends="default, kai"\n'
    assert json.loads(machines.getvalue())["backends"] == ["default", "kai"]


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown log level 'loud': use debug, info"):
        logs.configure(level="loud")


def test_metrics_are_prefixed_shared_by_name_and_private_to_their_registry() -> None:
    one, two = Metrics(), Metrics()
    counter = one.counter("selections_total", "Selections.", ("backend",))
    assert one.counter("grove_selections_total", "Selections.", ("backend",)) is counter
    counter.labels("kai").inc()
    assert one.value("grove_selections_total", backend="kai") == 1
    assert two.value("grove_selections_total", backend="kai") == 0
    assert b'grove_selections_total{backend="kai"} 1.0' in one.render()
    with pytest.raises(ValueError, match="exists already and is a Counter, not a Gauge"):
        one.gauge("selections_total", "Selections.")


def test_a_metric_of_the_table_is_made_as_the_table_says() -> None:
    metrics = Metrics()
    metrics.counter("grove_events_total").labels("written").inc()
    assert b"# HELP grove_events_total Events by outcome." in metrics.render()
    with pytest.raises(ValueError, match=r"is a counter with the labels \('result',\) in the table"):
        metrics.counter("grove_events_total", "Events.", ("outcome",))


def test_what_is_worked_out_at_each_scrape_is_never_stale() -> None:
    metrics, gangs = Metrics(), {"Running": 1.0}
    metrics.at_scrape("grove_gangs", lambda: [((phase, "kai", ""), n) for phase, n in gangs.items()])
    assert metrics.value("grove_gangs", phase="Running", backend="kai", reason="") == 1
    gangs["Pending"] = gangs.pop("Running") + 1
    page = metrics.render().decode()
    assert 'grove_gangs{backend="kai",phase="Pending",reason=""} 2.0' in page
    assert "Running" not in page


def test_a_process_tells_its_memory_and_its_version() -> None:
    metrics = Metrics()
    metrics.about_the_process()
    assert metrics.value("process_resident_memory_bytes") > 1e6
    assert metrics.value("grove_build_info", version=__version__) == 1
