"""The targets, held against a report: counts, ratios, and a few limits of time, CPU and memory. Pure.

On a real control plane times are held against the floor of the same run; counts are held on the embedded one.
"""

from dataclasses import dataclass

from bench.cases import EIGHTS, GROUPS, MANY, ONE_GANG, PAIRS, TEN, TEN_THOUSAND, Case, GroupCase
from bench.planes import Kind
from bench.results import Floor, Report, Run

#: Writes a pod, events aside, by case.
WRITES_PER_POD = ((PAIRS, 5.0), (EIGHTS, 3.0), (ONE_GANG, 2.02))
#: On a real control plane, as multiples of the floor's: gates open and running, each against the same pods
#: and against plain ones, but for running against plain ones, which has a multiple of its own.
TIMES_FLOOR = ((PAIRS, 2.5, 2.0), (EIGHTS, 1.5, 1.2), (ONE_GANG, 1.3, 1.8))
#: Until the gates of ten pods are open; until they run.
TEN_PODS_SECONDS = 0.3
LINEARITY = 0.8
#: CPU seconds of the operator, and the most memory that it may have, in MB.
CPU_SECONDS = 5.0
MEMORY_MB = ((PAIRS, 70.0), (MANY, 110.0))
MANY_SECONDS = 120.0
#: A new operator process is ready, with the pods of the largest set there.
READY_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target: what was wanted, what was measured; `met` is None when it was not measured."""

    target: str
    measured: str = "not measured"
    met: bool | None = None


def verdicts(report: Report) -> list[Verdict]:
    """Every target of the report's control plane, met or not."""
    if report.control_plane == Kind.REAL:
        return _real(report)
    found = [_writes(report.run(case.name), case, most) for case, most in WRITES_PER_POD]
    found += [_writes_in_all(report.run(case.name), case) for case in GROUPS]
    found.append(_ten_pods_open(report.run(TEN.name)))
    found += [_linear(report.run(PAIRS.name), report.run(case.name), case) for case in (MANY, TEN_THOUSAND)]
    found += [_memory(report.run(case.name), case, most) for case, most in MEMORY_MB]
    found.append(_restart(report.run(PAIRS.name)))
    found.append(_ready(report.run(MANY.name)))
    return found


def _real(report: Report) -> list[Verdict]:
    found: list[Verdict] = []
    for case, most, most_of_plain in TIMES_FLOOR:
        run = report.run(case.name)
        same = report.same_pods(run) if run is not None else None
        found += _times_floor(run, same, case, (most, most), "the same pods")
        found += _times_floor(run, report.floor(case.pods), case, (most, most_of_plain), "plain pods")
    found.append(_ten_pods_run(report.run(TEN.name)))
    found.append(_many_run(report.run(MANY.name)))
    found += [_linear(report.run(PAIRS.name), report.run(case.name), case) for case in (MANY, TEN_THOUSAND)]
    found.append(_as_linear(report))
    found.append(_cpu(report.run(PAIRS.name)))
    found.append(_ready(report.run(MANY.name)))
    found += [_memory(report.run(case.name), case, most) for case, most in MEMORY_MB]
    return found


def _as_linear(report: Report) -> Verdict:
    """Held against the control plane by itself: services cost it more than their number."""
    target = f"{MANY.name}: slower than {PAIRS.name} by no more than the same pods and services by themselves"
    thousand, many = report.run(PAIRS.name), report.run(MANY.name)
    if thousand is None or many is None:
        return Verdict(target)
    few, lots = (report.same_pods(run, services=True) for run in (thousand, many))
    if few is None or lots is None:
        return Verdict(target)
    ours = many.pods_per_second / thousand.pods_per_second
    theirs = lots.pods_per_second / few.pods_per_second
    return Verdict(target, f"{ours:.2f} ({theirs:.2f} by themselves)", ours >= theirs)


def _times_floor(
    run: Run | None, floor: Floor | None, case: Case, most: tuple[float, float], of: str
) -> list[Verdict]:
    targets = [
        f"{case.name}: {what} within {times} x the floor of {of}"
        for what, times in zip(("gates open", "running"), most, strict=True)
    ]
    if run is None or floor is None:
        return [Verdict(target) for target in targets]
    ratios = (run.gates_open / floor.gates_open, run.running / floor.running)
    return [
        Verdict(target, f"{ratio:.2f} x", ratio <= times)
        for target, ratio, times in zip(targets, ratios, most, strict=True)
    ]


def failed(report: Report) -> bool:
    """Whether a target was missed; one that was not measured is not missed."""
    return any(verdict.met is False for verdict in verdicts(report))


def _writes(run: Run | None, case: Case, most: float) -> Verdict:
    target = f"{case.name}: at most {most} writes a pod"
    if run is None:
        return Verdict(target)
    return Verdict(target, f"{run.writes_per_pod:.3f}", run.writes_per_pod <= most)


def _writes_in_all(run: Run | None, case: GroupCase) -> Verdict:
    target = f"{case.name}: at most {case.most_writes} writes"
    if run is None:
        return Verdict(target)
    written = round(run.writes_per_pod * run.pods)
    return Verdict(target, str(written), written <= case.most_writes)


def _ten_pods_open(run: Run | None) -> Verdict:
    target = f"{TEN.name}: gates open in less than {TEN_PODS_SECONDS} s"
    return Verdict(target) if run is None else _less(target, run.gates_open, TEN_PODS_SECONDS, "s")


def _ten_pods_run(run: Run | None) -> Verdict:
    target = f"{TEN.name}: running in less than {TEN_PODS_SECONDS} s"
    return Verdict(target) if run is None else _less(target, run.running, TEN_PODS_SECONDS, "s")


def _many_run(run: Run | None) -> Verdict:
    target = f"{MANY.name}: running in less than {MANY_SECONDS:.0f} s"
    return Verdict(target) if run is None else _less(target, run.running, MANY_SECONDS, "s")


def _cpu(run: Run | None) -> Verdict:
    target = f"{PAIRS.name}: operator below {CPU_SECONDS:.0f} CPU seconds"
    return Verdict(target) if run is None else _less(target, run.cpu, CPU_SECONDS, "s")


def _linear(thousand: Run | None, many: Run | None, case: Case) -> Verdict:
    target = f"{case.name}: at least {LINEARITY} of the pods a second of {PAIRS.name}"
    if thousand is None or many is None:
        return Verdict(target)
    ratio = many.pods_per_second / thousand.pods_per_second
    return Verdict(target, f"{ratio:.2f}", ratio >= LINEARITY)


def _memory(run: Run | None, case: Case, most: float) -> Verdict:
    target = f"{case.name}: operator below {most:.0f} MB"
    return Verdict(target) if run is None or not run.rss_peak else _less(target, run.rss_peak, most, "MB")


def _restart(run: Run | None) -> Verdict:
    target = f"{PAIRS.name}: a restarted operator writes nothing"
    if run is None or run.restart_writes is None:
        return Verdict(target)
    return Verdict(target, f"{run.restart_writes:.0f} writes", run.restart_writes == 0)


def _ready(run: Run | None) -> Verdict:
    target = f"{MANY.name}: a restarted operator is ready in less than {READY_SECONDS} s"
    if run is None or run.restart_ready is None:
        return Verdict(target)
    return _less(target, run.restart_ready, READY_SECONDS, "s")


def _less(target: str, value: float, most: float, unit: str) -> Verdict:
    return Verdict(target, f"{value:.2f} {unit}", value < most)
