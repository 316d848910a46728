"""How commands speak: data goes to standard output, everything else to standard error.

Nothing is coloured: every line reads the same on a terminal, in a file and with NO_COLOR.
"""

import contextlib
import json
import sys
from collections.abc import Sequence
from enum import StrEnum

from grove.errors import GroveError, Terminal
from grove.meta import Manifest


class Format(StrEnum):
    """How data is printed."""

    YAML = "yaml"
    JSON = "json"


class Form(StrEnum):
    """How objects are printed."""

    NAME = "name"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"

    @property
    def data(self) -> Format | None:
        """The format of whole objects; None for what shows only a part of them."""
        return Format(self.value) if self in (Form.YAML, Form.JSON) else None


class Refused(Terminal):
    """The input was refused; `lines` holds one sentence for each reason."""

    code = "ERR_REFUSED"

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("; ".join(self.lines))


class Failed(GroveError):
    """A command could not do what it was asked to; the message is the sentence to show."""

    code = "ERR_COMMAND"


def say(line: str) -> None:
    """A sentence for the person at the keyboard."""
    # When the terminal has been closed there is nobody to tell, and an orderly end must go on.
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def emit(text: str) -> None:
    """Data, whole: what was printed before a failure could be mistaken for the answer."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def dumped(value: Manifest | Sequence[Manifest], form: Format) -> str:
    """A value as text, in the order in which it was built and without anchors."""
    if form is Format.JSON:
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    import yaml

    dumper: type[yaml.SafeDumper] | type[yaml.CSafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    # Through JSON, so that a value which appears twice is written twice and not as an alias.
    plain = json.loads(json.dumps(value))
    text: str = yaml.dump(plain, Dumper=dumper, sort_keys=False, width=110, allow_unicode=True)
    return text
