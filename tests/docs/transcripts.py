"""Dependencies sessions of the documentation: the commands that a page shows, and what it says that they print."""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)

#: The letters of random name endings and of hashes in names, as Kubernetes chooses them.
_LETTERS: Final = "[bcdfghjklmnpqrstvwxz2456789]"

#: What differs from run to run, and what stands for it when a page is compared with a run.
VARIABLE: Final = (
    (r"^\d\d:\d\d:\d\d\.\d{3} ", "<time> "),
    (r"^ *\d+\.\d\ds  ", "<elapsed>  "),
    (r"\bDone in \d+\.\d s", "Done in <elapsed>"),
    (r"(?:(?<=\s)|^)(?:\d+[dhms]){1,2}(?=\s|$)", "<age>"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    (r"\bport=\d+", "port=<port>"),
    (r"\bidentity=\S+", "identity=<host and process>"),
    # Random names decide in which order the pods of a gang are placed.
    (r"\b10\.64\.\d+\.\d+ +node-\d+", "<ip>  <node>"),
    (rf"-{_LETTERS}{{10}}\b", "-<hash>"),
    (rf"-{_LETTERS}{{5}}\b", "-<random>"),
    # Columns are as wide as their contents.
    (r"(?<=\S) {2,}", "  "),
    (r" +$", ""),
    (r"\n{2,}", "\n"),
    # Pods and scheduler objects are created by two controllers at the same time: either can be first.
    (r"^(<elapsed>  gated  .*\n)(<elapsed>  scheduler  .*\n)", r"\2\1"),
)


@dataclass(frozen=True)
class Step:
    """A command of a page with its output; the output is empty where the page shows none."""

    where: str
    command: str
    shown: str = ""


def blocks(page: Path, *languages: str) -> list[tuple[int, str, str]]:
    """The code blocks of a page that are marked with one of these languages: line, language and text."""
    text = page.read_text()
    return [
        (text.count("\n", 0, found.start()) + 2, found[1], dedent(found[2]))
        for found in _BLOCK.finditer(text)
        if found[1] in languages
    ]


def steps(page: Path) -> list[Step]:
    """What a reader types and sees, from the first block of a page to the last.

    In a `console` block commands come after "$ "; in an `sh` block every line is a command.
    """
    found: list[Step] = []
    for first, language, text in blocks(page, "console", "sh"):
        for number, line in enumerate(text.splitlines(), start=first):
            where = f"{page.relative_to(ROOT)}:{number}"
            if language == "sh" or line.startswith("$ "):
                found.append(Step(where, line.removeprefix("$ ").split("  #")[0].rstrip()))
            else:
                last = found.pop()
                found.append(Step(last.where, last.command, f"{last.shown}{line}\n"))
    return found


def normalised(text: str) -> str:
    """A text with everything that differs from run to run replaced."""
    for pattern, stands_for in VARIABLE:
        text = re.sub(pattern, stands_for, text, flags=re.MULTILINE)
    return text.strip("\n") + "\n"


def agrees(shown: str, printed: str) -> bool:
    """Whether a run printed what a page shows.

    On the page, a line in square brackets that begins with dots stands for any number of lines, and three
    dots within a line for any text.
    """
    pattern = ""
    for line in normalised(shown).splitlines():
        omitted = re.fullmatch(r"\[\.\.\.(.*\.\.\.)?\]", line)
        pattern += "(?:.*\n)*?" if omitted else re.escape(line).replace(r"\.\.\.", ".*") + "\n"
    return re.fullmatch(pattern, normalised(printed)) is not None


def difference(step: Step, printed: str) -> str:
    """What to tell about a command that printed something else than its page shows."""
    lines = difflib.unified_diff(
        normalised(step.shown).splitlines(), normalised(printed).splitlines(), "page", "run", lineterm="", n=9
    )
    return "\n".join([f"{step.where}: $ {step.command}", *lines, "", "The whole output:", printed])
