"""What a Kubernetes quantity such as `500m` or `1.5Gi` is worth: many texts mean the same."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

BINARY: Final = {"Ei": 60, "Pi": 50, "Ti": 40, "Gi": 30, "Mi": 20, "Ki": 10}
#: The finest amount that Kubernetes keeps is a billionth.
ONE: Final = 10**9

_QUANTITY: Final = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
#: More digits in an exponent are no amount of anything, and would take long to multiply out.
_EXPONENT_DIGITS: Final = 3


@lru_cache(maxsize=4096)
def quantity(text: str) -> int:
    """The value of a quantity in billionths, rounded up as Kubernetes does; raises ValueError."""
    return -(-_value(text) * ONE // 1)


def _value(text: str) -> Fraction:
    found = _QUANTITY.fullmatch(text)
    if found is None or len((found[2] or "").lstrip("+-")) > _EXPONENT_DIGITS:
        raise ValueError(f"{text!r} is not a quantity")
    number, exponent, suffix = Fraction(found[1]), found[2], found[3] or ""
    if exponent:
        return number * Fraction(10) ** int(exponent)
    if suffix in BINARY:
        return number * (1 << BINARY[suffix])
    if suffix not in _DECIMAL:
        raise ValueError(f"{text!r} is not a quantity")
    return number * Fraction(10) ** _DECIMAL[suffix]
