"""Fetch a manifest from a URL: with a limit of size and time, and without ever showing credentials."""

import base64
import urllib.error
import urllib.request
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from grove import __version__
from grove.cli.talk import Refused

#: Larger than any set of manifests, smaller than what would hurt.
MOST_BYTES: Final = 16 << 20
_SECONDS: Final = 30.0


def download(url: str, *, seconds: float = _SECONDS) -> str:
    """The text at a URL; raises Refused with one sentence."""
    name = without_credentials(url)
    headers = {"User-Agent": f"grove/{__version__}", **_authorization(url)}
    request = urllib.request.Request(name, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            body: bytes = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise Refused([f"{name}: the server answered {error.code} {error.reason}"]) from None
    except urllib.error.URLError as error:
        raise Refused([f"{name}: cannot be fetched: {error.reason}"]) from None
    except (OSError, ValueError) as error:
        raise Refused([f"{name}: cannot be fetched: {error}"]) from None
    if len(body) > MOST_BYTES:
        raise Refused([f"{name}: is larger than {MOST_BYTES >> 20} MiB"])
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused([f"{name}: is not text in UTF-8"]) from None


def _authorization(url: str) -> dict[str, str]:
    """What a name and a password in a URL mean."""
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def without_credentials(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
