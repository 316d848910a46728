"""Pages of the documentation, for people who are nowhere near this repository. Pure."""

import re
from typing import Final

from grove.errors import InvalidConfiguration

#: Nothing, or an address that a page's path can be put behind, in YAML without quotes too.
ADDRESS: Final = r"^(https?://[^\s\"'#]+)?$"


def linked(base: str, page: str) -> str:
    """A page by its path in the repository, behind the address where one is given."""
    return f"{base.removesuffix('/')}/{page}" if base and page else page


def checked(base: str, field: str) -> str:
    """The address as it was given; raises InvalidConfiguration that names the field."""
    if not re.match(ADDRESS, base):
        raise InvalidConfiguration(f"{field}: must begin with https:// or http://; got {base!r}")
    return base
