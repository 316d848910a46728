"""What a quantity such as `500m` or `1.5Gi` is worth: of the texts that mean the same, one is the usual."""

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


@lru_cache(maxsize=4096)
def usual(text: str) -> str:
    """The one text by which quantities of this value are compared: as such values are usually written.

    `1`, `1000`, `1Gi`, `500G` and `1500m` are themselves; `1000m` is `1` and `1024Mi` is `1Gi`. Whole numbers
    below a million have no unit, others the one with the smallest number. Raises ValueError.
    """
    value = quantity(text)
    amount, sign = abs(value), "-" if value < 0 else ""
    whole, rest = divmod(amount, ONE)
    if not rest and whole < _MILLION:
        return f"{sign}{whole}"
    number, suffix = min((amount // unit, suffix) for unit, suffix in _UNITS if amount % unit == 0)
    return f"{sign}{number}{suffix}"


_MILLION: Final = 10**6
#: In billionths.
_UNITS: Final = (
    *((10 ** (9 + power), suffix) for suffix, power in _DECIMAL.items() if suffix != "k"),
    *((ONE << bits, suffix) for suffix, bits in BINARY.items()),
)
