"""Where the made-up parts of objects come from: uids, name suffixes, tokens, cluster addresses.

Seeded, so the same requests in the same order give the same names every time; a cluster that keeps its
objects must give a seed that it never had before, because uids may not come back.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_ADDRESSES = 65_536 - 20


class Generator:
    def __init__(self, seed: int | str = 0) -> None:
        self._random = random.Random(seed)
        self._addresses = 0

    def uid(self) -> str:
        bits = self._random.getrandbits(128)
        return str(uuid.UUID(int=bits, version=4))

    def suffix(self) -> str:
        """Five characters, as generateName adds them: no vowels, nothing that looks like a word."""
        return "".join(self._random.choices(_SUFFIX, k=5))

    def token(self) -> str:
        return f"{self._random.getrandbits(160):040x}"

    def cluster_ip(self) -> str:
        self._addresses = self._addresses % _ADDRESSES + 1
        high, low = divmod(self._addresses + 9, 256)
        return f"10.96.{high}.{low}"

    def resume_addresses(self, taken: Iterable[str]) -> None:
        """Goes on after the highest cluster address that is taken."""
        for address in taken:
            parts = address.split(".")
            if parts[:2] == ["10", "96"]:
                self._addresses = max(self._addresses, int(parts[2]) * 256 + int(parts[3]) - 9)

    def getstate(self) -> tuple[object, int]:
        return self._random.getstate(), self._addresses

    def setstate(self, state: tuple[object, int]) -> None:
        self._random.setstate(state[0])  # type: ignore[arg-type]
        self._addresses = state[1]
