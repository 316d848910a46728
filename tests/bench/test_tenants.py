"""What several rounds of small sets beside a large one come to."""

from bench.tenants import MOST_MB, Result, Setting, Summary, summaries

ALONE, BESIDE = Setting(), Setting(20_000)


def beside(seconds: float, peak: float = 100.0, gangs: int = 400) -> Result:
    return Result(BESIDE, seconds, gangs, gangs + 10, peak)


def alone(seconds: float) -> Result:
    return Result(ALONE, seconds, 0, 0, 80.0)


def test_a_setting_is_held_against_alone_in_its_own_round() -> None:
    # The machine was slow in the second round: all of it takes twice as long, and the ratio stays.
    rounds = [
        [alone(1.0), beside(1.2)],
        [alone(2.0), beside(2.4, peak=120.0, gangs=500)],
        [alone(1.0), beside(1.6, gangs=300)],
    ]
    assert summaries(rounds) == [
        Summary(ALONE, 1.0, 1.0, 1.0, 1.0, 0, 0, 80.0),
        Summary(BESIDE, 1.6, 1.2, 1.2, 1.6, 400, 410, 120.0),
    ]


def test_one_round_is_its_own_median() -> None:
    (_, found) = summaries([[alone(2.0), beside(2.5)]])
    assert found == Summary(BESIDE, 2.5, 1.25, 1.25, 1.25, 400, 410, 100.0)


def test_a_target_is_missed_by_the_median_of_the_ratios_or_by_the_most_memory() -> None:
    one_slow = [[alone(1.0), beside(seconds)] for seconds in (1.2, 1.3, 9.0)]
    slow = [[alone(1.0), beside(seconds)] for seconds in (1.2, 1.6, 1.7)]
    large = [[alone(1.0), beside(1.0, peak=peak)] for peak in (90.0, MOST_MB + 1.0, 90.0)]
    assert [summaries(each)[1].missed for each in (one_slow, slow, large)] == [False, True, True]
