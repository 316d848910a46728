"""The parts of docs/performance.md that are generated: one for each control plane, between two markers."""

from pathlib import Path
from typing import Final

from bench.checks import verdicts
from bench.planes import Kind
from bench.results import Report
from bench.tables import markdown

MARKERS: Final = {
    Kind.EMBEDDED: (
        "<!-- measured: begin; written by python -m bench --write-docs -->",
        "<!-- measured: end -->",
    ),
    Kind.REAL: (
        "<!-- measured on real: begin; written by python -m bench --control-plane real --write-docs -->",
        "<!-- measured on real: end -->",
    ),
}


def inserted(page: str, content: str, kind: Kind = Kind.EMBEDDED) -> str:
    """The page with this between its markers; raises ValueError when it has none."""
    first, last = MARKERS[kind]
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the page has no place for the numbers: it needs the lines {first!r} and {last!r}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def write_page(file: Path, report: Report) -> None:
    """Put the report's tables into the page."""
    content = markdown(report, verdicts(report))
    page = inserted(file.read_text(encoding="utf-8"), content, Kind(report.control_plane))
    file.write_text(page, encoding="utf-8")
