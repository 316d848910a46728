"""Read kubeconfig files: their shape, and how several are merged into one.

Promises that every mistake names the file and the field, and that an entry remembers the file it came from:
relative paths are relative to that file. Never opens a connection and never runs a plugin; see `config`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import yaml

from grove.errors import KubeconfigError
from grove.kube.decoding import without_nulls
from grove.words import yaml_problem

_Loader: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
T = TypeVar("T")


class _Part(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """A stanza whose keys are written-like-this."""


class Cluster(_Part, frozen=True):
    """Where a cluster is and how it proves who it is."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class EnvVar(_Part, frozen=True):
    """One variable that a plugin gets."""

    name: str
    value: str = ""


class Exec(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A plugin that hands out credentials."""

    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    install_hint: str = ""
    interactive_mode: str = ""
    provide_cluster_info: bool = False


class User(_Part, frozen=True):
    """How we prove who we are."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: dict[str, object] | None = None
    as_user: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}


class Context(_Part, frozen=True):
    """Which user talks to which cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Part, frozen=True):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(_Part, frozen=True):
    name: str
    user: User = User()


class _NamedContext(_Part, frozen=True):
    name: str
    context: Context = Context()


class _File(_Part, frozen=True):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One named stanza and where it stands."""

    value: T
    file: Path
    #: How error messages call it, e.g. `users[admin].user`.
    path: str

    def field(self, name: str) -> str:
        """The full name of one field of this entry, file first."""
        return f"{self.file}: {self.path}.{name}"

    def beside(self, path: str) -> Path:
        """A path of this entry, relative to the file that it is written in."""
        return self.file.absolute().parent / Path(path).expanduser()


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Several files as one: the first to say something wins."""

    files: tuple[Path, ...]
    current_context: str
    clusters: dict[str, Entry[Cluster]]
    users: dict[str, Entry[User]]
    contexts: dict[str, Entry[Context]]

    @property
    def name(self) -> str:
        """How error messages call the whole."""
        return ", ".join(str(file) for file in self.files)


def read(files: Iterable[Path]) -> Kubeconfig:
    """Merge the files, each of which must exist."""
    paths = tuple(files)
    merged = Kubeconfig(paths, "", {}, {}, {})
    current = ""
    for path in paths:
        parsed = _parse(path)
        current = current or parsed.current_context
        for cluster in parsed.clusters:
            entry = Entry(cluster.cluster, path, f"clusters[{cluster.name}].cluster")
            merged.clusters.setdefault(cluster.name, entry)
        for user in parsed.users:
            merged.users.setdefault(user.name, Entry(user.user, path, f"users[{user.name}].user"))
        for context in parsed.contexts:
            named = Entry(context.context, path, f"contexts[{context.name}].context")
            merged.contexts.setdefault(context.name, named)
    return Kubeconfig(paths, current, merged.clusters, merged.users, merged.contexts)


def _parse(path: Path) -> _File:
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise KubeconfigError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise KubeconfigError(yaml_problem(error).at(str(path))) from error
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{path} is not text in UTF-8") from error
    if document is None:
        return _File()
    if not isinstance(document, dict):
        raise KubeconfigError(
            f"{path} is not a kubeconfig: its root must be a mapping, with clusters, users and contexts"
        )
    if document.get("kind") not in (None, "", "Config"):
        raise KubeconfigError(f"{path}: kind must be 'Config', not {document['kind']!r}")
    try:
        return msgspec.convert(without_nulls(document), _File)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`") or "(root)"
        raise KubeconfigError(f"{path}: {field} is wrong: {what[:1].lower()}{what[1:]}") from error
