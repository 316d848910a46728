"""The part of docs/performance.md that is generated, between two markers."""

from pathlib import Path
from typing import Final

from bench.checks import verdicts
from bench.results import Report
from bench.tables import markdown

BEGIN: Final = "<!-- measured: begin; written by python -m bench --write-docs -->"
END: Final = "<!-- measured: end -->"


def inserted(page: str, content: str) -> str:
    """The page with this between its markers; raises ValueError when it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the numbers: it needs the lines {BEGIN!r} and {END!r}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def write_page(file: Path, report: Report) -> None:
    """Put the report's tables into the page."""
    page = inserted(file.read_text(encoding="utf-8"), markdown(report, verdicts(report)))
    file.write_text(page, encoding="utf-8")
