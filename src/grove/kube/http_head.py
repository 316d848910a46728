"""The heads of HTTP/1.1: of a request as bytes, of an answer as status and headers.

Pure. What could be read in two ways is a ValueError.
"""

from typing import Final

from grove.kube.carriage import Request

#: What says where a body ends; two of them that differ say nothing.
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})


def head_of(request: Request, host: str) -> bytes:
    """What goes out before the body; raises ValueError if it would be more than one head."""
    body = request.body
    lines = [f"{request.method} {request.path}{request.query} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    elif request.method in ("POST", "PUT", "PATCH"):
        lines.append("Content-Length: 0")
    head = "\r\n".join(lines)
    if head.count("\r") != len(lines) - 1 or head.count("\n") != len(lines) - 1 or "\0" in head:
        raise ValueError(f"a header of {request.method} {request.path} contains the end of a line")
    return f"{head}\r\n\r\n".encode()


def parsed(head: str) -> tuple[str, int, dict[str, str]]:
    """Version, status and headers with lower-case names; of a repeated one the first."""
    first, *lines = head.split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if (
        not version.startswith("HTTP/1.")
        or not status.isdecimal()
        or not status.isascii()
        or rest[3:4].strip()
    ):
        raise ValueError(f"it began with {first[:40]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ValueError(f"{line[:40]!r} is no header")
        lower, value = name.lower(), value.strip(" \t")
        first_said = headers.setdefault(lower, value)
        if first_said is value:
            continue
        if lower in _FRAMING and first_said != value:
            raise ValueError(f"it says {lower} as {first_said!r} and as {value!r}")
        if lower == "connection":
            headers[lower] = f"{first_said}, {value}"
    return version, int(status), headers
