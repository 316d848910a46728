"""Which proxy stands between us and the API server: `proxy-url`, else what the environment says.

Pure: the environment is given. Never proxies loopback addresses unless the kubeconfig itself says so.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from grove.errors import KubeconfigError

_DEFAULT_PORTS = {"http": 80, "https": 443}


def proxy_for(
    server: str, environ: Mapping[str, str], *, explicit: str = "", field: str = "proxy-url"
) -> str:
    """The URL of the proxy for this server, or an empty string; `explicit` is what the kubeconfig says."""
    if explicit:
        return _checked(explicit, field)
    target = urlsplit(server)
    name = "HTTPS_PROXY" if target.scheme == "https" else "HTTP_PROXY"
    value = environ.get(name) or environ.get(name.lower()) or ""
    if not value or _bypassed(server, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return ""
    return _checked(value if "://" in value else f"http://{value}", f"the environment variable {name}")


def _checked(url: str, field: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise KubeconfigError(f"{field} must be an http:// or https:// URL, not {_without_secret(url)!r}")
    return url


def _without_secret(url: str) -> str:
    before, at, after = url.rpartition("@")
    return f"{before.partition('://')[0]}://…@{after}" if at else url


def _bypassed(server: str, no_proxy: str) -> bool:
    parts = urlsplit(server)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_matches(entry, host, port, address) for entry in entries if entry)


def _matches(
    entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = _split_port(entry)
    if wanted_port and wanted_port != port:
        return False
    if address is not None:
        return _address(name.strip("[]")) == address
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)  # only what is below the domain
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, int]:
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.endswith("]")):
        return name, int(port)
    return entry, 0


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
