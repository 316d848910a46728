"""Kubernetes quantities ("500m", "2Gi") as exact numbers.

Parses and compares; never rounds.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
MALFORMED = f"quantities must match the regular expression '{PATTERN}'"
_SHAPE = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def is_quantity(value: object) -> bool:
    """Whether the server would accept this as a quantity."""
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) or (isinstance(value, str) and _SHAPE.fullmatch(value) is not None)


@lru_cache(4096)
def _parse(text: str) -> Decimal:
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise ValueError(MALFORMED)
    number, suffix = Decimal(match[1]), match[2]
    if not suffix:
        return number
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number.scaleb(exponent)


def parse(value: object) -> Decimal:
    """The exact number that a quantity means; ValueError for anything else."""
    if not is_quantity(value):
        raise ValueError(MALFORMED)
    return _parse(str(value))
