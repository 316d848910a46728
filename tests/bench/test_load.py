"""What others did meanwhile, and that a run beside them is not called quiet."""

from dataclasses import replace
from pathlib import Path

import pytest
from bench.load import Others, Spent, machine_seconds, most, others_between
from bench.results import Floor, Report, Run, median_run, read, save
from bench.tables import caption

EMPTY = Report("2026-01-02", "a machine", "3.11.0", "abc1234", "1.36", 1)
RUN = Run("500x2", 1000, created=1.0, gates_open=2.0, running=4.0, available=5.0)
FLOOR = Floor(1000, 1.0, 1.5, 2.0, 0.5)
LITTLE, MUCH = Others(0.5, 0.05), Others(6.0, 0.6)


def test_idle_cores_and_disks_waited_for_are_no_work_and_guests_are_not_counted_twice() -> None:
    text = "cpu  100 200 300 4000 5000 10 20 30 40 50\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
    assert machine_seconds(text, ticks=10) == 66.0


def test_a_system_that_does_not_tell_is_not_known() -> None:
    assert machine_seconds("", ticks=100) is None
    assert others_between(Spent(0.0, None, 0.0), Spent(9.0, None, 5.0), cores=2) is None


def test_what_none_of_our_processes_used_was_used_by_others() -> None:
    found = others_between(Spent(10.0, 100.0, 20.0), Spent(20.0, 115.0, 30.0), cores=2)
    assert found == Others(seconds=5.0, share=0.25)


def test_the_kernel_counts_us_in_larger_steps_than_itself_which_is_no_negative_load() -> None:
    assert others_between(Spent(0.0, 1.0, 1.0), Spent(1.0, 1.5, 1.6), cores=2) == Others(0.0, 0.0)


@pytest.mark.parametrize(("share", "quiet"), [(0.0, True), (0.1, True), (0.11, False), (0.9, False)])
def test_a_run_is_quiet_while_others_use_a_tenth_of_the_machine_at_most(share: float, quiet: bool) -> None:
    assert Others(1.0, share).quiet is quiet


def test_a_report_says_whether_the_machine_was_quiet_and_what_others_used() -> None:
    quiet = replace(EMPTY, runs=(replace(RUN, others=LITTLE),), floors=(replace(FLOOR, others=LITTLE),))
    busy = replace(quiet, floors=(replace(FLOOR, others=MUCH),))
    assert caption(quiet).endswith(
        "the machine was quiet: others used up to 5% of it (0.5 CPU seconds in one measurement)"
    )
    assert "the machine was not quiet: others used up to 60% of it (6.0 CPU seconds" in caption(busy)


def test_a_report_of_which_a_part_is_not_known_is_not_called_quiet() -> None:
    assert most([LITTLE, None]) is None
    assert "quiet" not in caption(replace(EMPTY, runs=(replace(RUN, others=LITTLE), RUN)))


def test_of_several_runs_the_busiest_counts() -> None:
    assert median_run([replace(RUN, others=each) for each in (LITTLE, MUCH, LITTLE)]).others == MUCH


def test_the_load_of_others_is_kept_with_the_results(tmp_path: Path) -> None:
    report = replace(EMPTY, runs=(replace(RUN, others=MUCH),))
    save(report, tmp_path / "results.json")
    assert read(tmp_path / "results.json") == report


def test_a_measurement_with_other_players_or_settings_says_so() -> None:
    told = caption(replace(EMPTY, players="kwok", settings="fieldOwnership: Untracked\n"))
    assert "Kubernetes 1.36 with kwok (fieldOwnership: Untracked), a machine" in told
