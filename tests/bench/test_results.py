"""Medians, the file of results, the targets, and the tables made from them."""

from dataclasses import replace
from pathlib import Path

import pytest
from bench.beside import beside_go, costs
from bench.cases import CASES, GROUPS, Case, case_named, cliquesets, floor_pod
from bench.checks import failed, verdicts
from bench.cluster_process import writes
from bench.pages import MARKERS, inserted
from bench.planes import Kind
from bench.results import Cost, Floor, Report, Run, median_floor, median_run, read, save
from bench.tables import markdown, rows
from bench.usage import parse

from grove.admission import default, validate
from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode
from grove.embedded.requests import Logged
from grove.plan.layout import pods_of_a_replica

EMPTY = Report("2026-01-02", "a machine", "3.11.0", "abc1234", "1.36", 1)


def run(case: str = "500x2", **changes: object) -> Run:
    """A run that meets every target."""
    made = Run(case, case_named(case).pods, created=1.0, gates_open=2.0, running=4.0, available=5.0)
    return replace(made, **changes)  # type: ignore[arg-type]


def good_report() -> Report:
    runs = (
        run("5x2", gates_open=0.1),
        run("500x2", writes={"create pods": 5000}, restart_writes=0, rss_peak=69.0),
        run("125x8", writes={"create pods": 3000}),
        run("1x1000", writes={"create pods": 2020}),
        run("2500x2", running=24.0, rss_peak=109.0, restart_writes=0, restart_ready=1.49),
        run("20 sets of 250x2", running=50.0),
        *(run(case.name, writes={"create pods": case.most_writes}) for case in GROUPS),
    )
    return replace(EMPTY, runs=runs, floors=(Floor(1000, 1.0, 1.5, 2.0, 0.5),))


def good_real_report() -> Report:
    """A report of a real control plane at the very edge of every target."""
    floor = Floor(1000, 1.0, 2.0, 4.0, 0.5, {"etcd": Cost(1.0, 60.0)})
    same = [
        replace(floor, gang_size=size, running=running)
        for size, running in ((2, 3.2), (8, 3.2), (1000, 7.2 / 1.3))
    ]
    served = [
        replace(floor, gang_size=2, services=True),
        replace(floor, pods=5000, running=25.0, gang_size=2, services=True),
    ]
    runs = (
        run("5x2", running=0.29),
        run(
            "500x2", gates_open=5.0, running=8.0, components={"etcd": Cost(2.5, 70.0)}, cpu=4.9, rss_peak=69.0
        ),
        run("125x8", gates_open=3.0, running=4.8),
        run("1x1000", gates_open=2.6, running=7.2),
        run("2500x2", running=50.0, rss_peak=109.0, restart_ready=1.49),
        run("20 sets of 250x2", running=100.0),
    )
    return replace(EMPTY, runs=runs, floors=(*same, *served, floor), control_plane="real")


def test_each_number_is_the_median_of_its_own() -> None:
    runs = [
        run(created=1.0, running=9.0, writes={"create pods": 10}),
        run(created=2.0, running=7.0, writes={"create pods": 12, "refused": 2}),
        run(created=3.0, running=8.0, writes={"create pods": 11}),
    ]
    middle = median_run(runs)
    assert (middle.created, middle.running) == (2.0, 8.0)
    assert middle.writes == {"create pods": 11, "refused": 0}


def test_the_worst_restart_the_highest_memory_and_the_usual_start_count() -> None:
    runs = [
        run(restart_writes=0, restart_ready=1.0, rss_peak=90.0),
        run(restart_writes=3, restart_ready=2.0, rss_peak=80.0),
        run(),
    ]
    middle = median_run(runs)
    assert (middle.restart_writes, middle.restart_ready, middle.rss_peak) == (3, 1.5, 90.0)


def test_the_floor_is_a_median_too() -> None:
    floors = [Floor(10, 1.0, 2.0, 3.0, 1.0), Floor(10, 3.0, 4.0, 5.0, 1.0), Floor(10, 2.0, 3.0, 4.0, 1.0)]
    assert median_floor(floors) == Floor(10, 2.0, 3.0, 4.0, 1.0)


def test_a_report_comes_back_from_its_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text("old")
    save(good_report(), file)
    assert read(file) == good_report()
    assert [each.name for each in tmp_path.iterdir()] == ["results.json"]


def test_a_report_that_meets_its_targets_passes() -> None:
    assert not failed(good_report())
    assert [verdict.met for verdict in verdicts(good_report())] == [True] * 13


MISSED = {
    "a write too many": run("500x2", writes={"create pods": 5001}, restart_writes=0, rss_peak=69.0),
    "refused writes are writes": run("125x8", writes={"create pods": 3000, "refused": 1}),
    "a write too many for a group": run("10xWL1", writes={"create pods": 353}),
    "ten pods that wait": run("5x2", gates_open=0.3),
    "slower when there is more": run("2500x2", running=25.1, rss_peak=100.0),
    "slower in many namespaces": run("20 sets of 250x2", running=50.1),
    "too much memory": run("2500x2", running=20.0, rss_peak=110.0),
    "too much memory for fewer": run("500x2", restart_writes=0, rss_peak=70.0),
    "a slow start": run("2500x2", running=24.0, restart_ready=1.5),
    "a restart that writes": run("500x2", restart_writes=1),
}


@pytest.mark.parametrize("worse", MISSED.values(), ids=MISSED)
def test_every_target_can_be_missed(worse: Run) -> None:
    report = good_report()
    kept = tuple(worse if each.case == worse.case else each for each in report.runs)
    assert sum(verdict.met is False for verdict in verdicts(replace(report, runs=kept))) == 1


def test_a_real_control_plane_is_held_against_its_own_floors() -> None:
    assert [verdict.met for verdict in verdicts(good_real_report())] == [True] * 21
    assert not failed(good_real_report())


@pytest.mark.parametrize(("size", "of"), [(0, "plain pods"), (2, "the same pods"), (8, "the same pods")])
def test_each_floor_is_a_measure_of_its_own(size: int, of: str) -> None:
    report = good_real_report()
    faster = tuple(
        replace(each, running=each.running * 0.97)
        if (each.gang_size, each.services) == (size, False)
        else each
        for each in report.floors
    )
    missed = [verdict for verdict in verdicts(replace(report, floors=faster)) if verdict.met is False]
    assert missed
    assert all(verdict.target.endswith(f"the floor of {of}") for verdict in missed)


REAL_MISSED = {
    "pairs whose gates open late": (2, run("500x2", gates_open=5.1, running=8.0)),
    "pairs that run late": (2, run("500x2", gates_open=5.0, running=8.1)),
    "eights whose gates open late": (2, run("125x8", gates_open=3.1, running=4.8)),
    "one gang that runs late": (2, run("1x1000", gates_open=2.6, running=7.3)),
    "ten pods that wait": (1, run("5x2", running=0.3)),
    "slower when there is more": (2, run("2500x2", running=50.1)),
    "slower in many namespaces": (1, run("20 sets of 250x2", running=100.1)),
    "five thousand pods that take long": (3, run("2500x2", running=120.0)),
    "too much work": (1, run("500x2", gates_open=5.0, running=8.0, cpu=5.0)),
    "too much memory": (1, run("2500x2", running=50.0, rss_peak=110.0)),
}


@pytest.mark.parametrize(("targets", "worse"), REAL_MISSED.values(), ids=REAL_MISSED)
def test_every_target_of_a_real_control_plane_can_be_missed(targets: int, worse: Run) -> None:
    report = good_real_report()
    kept = tuple(worse if each.case == worse.case else each for each in report.runs)
    missed = [verdict for verdict in verdicts(replace(report, runs=kept)) if verdict.met is False]
    assert all(verdict.target.startswith(f"{worse.case}: ") for verdict in missed)
    # A multiple is missed of both floors, and growth against both measures of it.
    assert len(missed) == targets


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_floor_of_the_same_pods_is_found_for_every_case(case: Case) -> None:
    floor = Floor(case.pods, 1.0, 2.0, 4.0, 0.5, gang_size=case.size)
    assert replace(EMPTY, floors=(floor,)).same_pods(run(case.name)) == floor


def test_without_a_floor_nothing_is_said_about_multiples_of_it() -> None:
    report = replace(good_real_report(), floors=())
    assert [verdict.met for verdict in verdicts(report)] == [None] * 12 + [True] * 4 + [None] + [True] * 4


def test_every_program_has_its_cost_beside_ours() -> None:
    head, body = costs(good_real_report())
    assert head == ("case", "operator", "etcd")
    assert body[1] == ("500 x 2", "4.90 s, 69 MB", "2.50 s, 70 MB")
    assert body[-1] == ("floor of 1000", "-", "1.00 s, 60 MB")


def test_the_go_operator_is_held_against_the_floor_that_was_measured_with_it() -> None:
    head, body = beside_go(good_real_report())
    row = dict(zip(head[1:3], body[1][1:3], strict=True))
    assert row == {"gates open": "5.00 s / 60.2 s", "x floor": "2.50 / 10.75"}
    assert body[0][2] == "- / -", "neither has a floor of ten pods"


def test_the_cost_of_a_program_is_a_median_and_its_memory_the_highest() -> None:
    runs = [
        run(components={"etcd": Cost(cpu, peak)}) for cpu, peak in ((1.0, 50.0), (9.0, 40.0), (2.0, 45.0))
    ]
    assert median_run(runs).components == {"etcd": Cost(2.0, 50.0)}


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert {verdict.met for verdict in verdicts(EMPTY)} == {None}
    assert not failed(EMPTY)


def test_the_table_has_a_row_for_each_case_and_floor_and_compares_them() -> None:
    table = rows(good_report())
    assert [row[0] for row in table] == [
        "5 x 2",
        "500 x 2",
        "125 x 8",
        "1 x 1000",
        "2500 x 2",
        "20 sets of 250 x 2",
        "10 x WL1",
        "100 x WL1",
        "100 x 8 group",
        "floor of 1000",
    ]
    assert table[1][6:10] == ("250", "1.33", "2.00", "5.00")
    assert table[0][7:9] == ("-", "-"), "there is no floor of ten pods to compare with"


@pytest.mark.parametrize("kind", Kind)
def test_the_documentation_gets_the_numbers_between_their_markers_and_keeps_the_rest(kind: Kind) -> None:
    page = "before\n" + "\n".join(f"{begin}\nold {name}\n{end}" for name, (begin, end) in MARKERS.items())
    report = good_report() if kind is Kind.EMBEDDED else good_real_report()
    content = markdown(report, verdicts(report))
    new = inserted(page, content, kind)
    begin, end = MARKERS[kind]
    assert new == page.replace(f"{begin}\nold {kind}\n{end}", f"{begin}\n{content}\n{end}")
    assert inserted(new, content, kind) == new
    with pytest.raises(ValueError, match="no place for the numbers"):
        inserted("a page", content, kind)


def logged(verb: str, resource: str, *, agent: str = "grove-operator/1", status: int = 200) -> Logged:
    return Logged("POST", "/", verb, resource, "admin", agent, status, 1)


def test_only_what_the_operator_stores_is_a_write() -> None:
    log = [
        logged("create", "pods", status=201),
        logged("patch", "podgangs.scheduler.grove.io/status"),
        logged("create", "pods", status=409),
        logged("create", "pods", agent="grove-bench/1"),
        logged("create", "selfsubjectaccessreviews.authorization.k8s.io", status=201),
        logged("watch", "pods"),
        replace(logged("create", "pods", status=201), dry_run=True),
    ]
    assert writes(log) == {"create pods": 1, "patch podgangs.scheduler.grove.io/status": 1, "refused": 1}


def test_usage_is_read_although_a_command_may_be_called_anything() -> None:
    stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 1"
    status = "Name:\tpython\nVmHWM:\t  200000 kB\nVmRSS:\t  100000 kB\n"
    usage = parse(stat, status, ticks=100)
    assert (usage.cpu, usage.peak, usage.rss) == (2.0, 204.8, 102.4)


def test_a_case_is_found_by_its_name_and_an_unknown_one_says_which_there_are() -> None:
    assert [case_named(case.name) for case in CASES] == list(CASES)
    with pytest.raises(KeyError, match=r"no case '7x7'; choose from 5x2, 50x2"):
        case_named("7x7")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_is_a_set_that_admission_accepts(case: Case) -> None:
    made = [decode(default(each), PodCliqueSet) for each in cliquesets(case)]
    assert [validate(each) for each in made] == [[]] * len(made)
    assert sum(each.spec.replicas * pods_of_a_replica(each.template) for each in made) == case.pods
    assert len({each.name for each in made}) == len({each.namespace for each in made}) == len(made)


def test_pods_of_the_floor_are_gated_and_have_names_of_their_own() -> None:
    pods = [floor_pod(index) for index in range(3)]
    assert len({pod["metadata"]["name"] for pod in pods}) == 3
    assert all(pod["spec"]["schedulingGates"] for pod in pods)
