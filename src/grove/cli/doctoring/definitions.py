"""Grove's own kinds: whether they are served, and whether their definitions are those of this version."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, TypeAlias

from grove.api import crd, kinds
from grove.cli.doctoring.findings import Finding, failed, fine, unseen, warning
from grove.errors import Forbidden
from grove.kube.client import Client
from grove.meta import Key, Manifest, Object, resource
from grove.words import counted

CRDS: Final = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
_FIX: Final = "grove crds | kubectl apply --server-side -f -"
_NAME: Final = "definitions"
_LINK: Final = "docs/guides/real-cluster.md#2-install-it"
_WAY_BACK: Final = "docs/guides/upgrading.md#the-way-back"
_STORED: Final = "docs/guides/upgrading.md#versions-in-which-objects-are-stored"
#: How many fields are named; the rest is counted.
_NAMED: Final = 3


async def definitions_served(client: Client) -> Sequence[Finding]:
    """Whether everything that the operator needs is there, in the form that this version writes."""
    if absent := await undefined(client):
        return [failed(_NAME, f"the cluster does not serve {', '.join(absent)}", fix=_FIX, link=_LINK)]
    pairs = []
    for wanted in crd.definitions():
        try:
            living = await client.get(CRDS, Key("", wanted["metadata"]["name"]), type=dict)
        except Forbidden:
            said = "all kinds of Grove are served; how old their definitions are, you may not read"
            return [unseen(_NAME, said, link=_LINK)]
        pairs.append((wanted, living))
    found = [*_older(pairs), *_newer(pairs), *[each async for each in _stored(client, pairs)]]
    if found:
        return found
    return [fine(_NAME, f"{counted(len(kinds.OURS), 'kind')} of Grove served, as this version defines them")]


async def undefined(client: Client) -> list[str]:
    """The kinds of Grove that the cluster does not serve."""
    served = (await client.discover()).served
    return [str(each) for each in kinds.OURS if each.plural not in served.get(each.api_version, ())]


#: A definition as this version has it, and as the cluster has it.
_Pair: TypeAlias = tuple[Manifest, Manifest]


def _older(pairs: Sequence[_Pair]) -> Iterator[Finding]:
    old = [
        f"{_name(wanted)} lacks {_listed(fields)}"
        for wanted, living in pairs
        if (fields := list(_lacking(_schema(wanted), _schema(living), "")))
    ]
    if old:
        said = f"definitions are older than this grove: {'; '.join(old)}; the API server drops these fields"
        yield warning(_NAME, said, fix=_FIX, link=_LINK)


def _newer(pairs: Sequence[_Pair]) -> Iterator[Finding]:
    """Fields and versions of a later release, which the definitions of this one would take away."""
    new = []
    for wanted, living in pairs:
        fields = list(_lacking(_schema(living), _schema(wanted), ""))
        latest = max(map(_rank, _versions(wanted)))
        versions = [f"version {each}" for each in _versions(living) if _rank(each) > latest]
        if more := [*versions, *fields]:
            new.append(f"{_name(wanted)} has {_listed(more)}")
    if new:
        said = f"definitions are newer than this grove: {'; '.join(new)}"
        fix = (
            "use the grove of that release; apply no definitions of this one: they would drop what is stored"
        )
        yield warning(_NAME, said, fix=fix, link=_WAY_BACK)


async def _stored(client: Client, pairs: Sequence[_Pair]) -> AsyncIterator[Finding]:
    """Definitions that the API server would refuse, because objects may be stored in a version they lack."""
    for wanted, living in pairs:
        name, stored = _name(wanted), (living.get("status") or {}).get("storedVersions") or ()
        if not (left := [each for each in stored if each not in _versions(wanted)]):
            continue
        said = (
            f"status.storedVersions of {name} contains {', '.join(left)}, which this version's definition "
            "does not serve: the API server refuses the definition"
        )
        now = next((each["name"] for each in living["spec"]["versions"] if each.get("storage")), "")
        fix = f"use a release that serves {now}, which the cluster stores now"
        if now in _versions(wanted):
            fix = _migrated(name, now, rewrites=await _any(client, name))
        yield failed("stored versions", said, fix=fix, link=_STORED)


async def _any(client: Client, name: str) -> bool:
    """Whether there are objects of a definition, as far as one may see that."""
    (kind,) = [each for each in kinds.OURS if str(each) == name]
    try:
        return bool((await client.list(kind, type=Object, limit=1)).items)
    except Forbidden:
        return True


def _migrated(name: str, now: str, *, rewrites: bool) -> str:
    """How no object is stored any more in a version that goes."""
    patch = f'{{"status":{{"storedVersions":["{now}"]}}}}'
    # kubectl fails where there is nothing to replace.
    rewritten = f"kubectl get {name} -A -o json | kubectl replace -f - && " if rewrites else ""
    return f"{rewritten}kubectl patch crd {name} --subresource=status --type=merge -p '{patch}'"


def _name(definition: Manifest) -> str:
    return str(definition["metadata"]["name"])


def _listed(fields: Sequence[str]) -> str:
    more = f" and {counted(len(fields) - _NAMED, 'more')}" if len(fields) > _NAMED else ""
    return f"{', '.join(fields[:_NAMED])}{more}"


def _versions(definition: Manifest) -> list[str]:
    """Those that a definition serves."""
    return [each["name"] for each in definition.get("spec", {}).get("versions") or () if each.get("served")]


def _schema(definition: Manifest) -> Manifest:
    versions = definition.get("spec", {}).get("versions") or ()
    found = [each for each in versions if each.get("name") == kinds.VERSION]
    return (found[0].get("schema") or {}).get("openAPIV3Schema") or {} if found else {}


def _rank(version: str) -> tuple[int, int, int]:
    """The order in which Kubernetes puts versions: alpha, beta and then those without either."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if found is None:
        return (-1, 0, 0)
    return (("alpha", "beta", None).index(found[2]), int(found[1]), int(found[3] or 0))


def _lacking(wanted: Manifest, living: Manifest, path: str) -> Iterator[str]:
    """The fields of one schema that another does not have."""
    if living.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = living.get("properties") or {}
    for field, value in (wanted.get("properties") or {}).items():
        at = f"{path}.{field}".lstrip(".")
        if field not in known:
            yield at
        else:
            yield from _lacking(value, known[field], at)
    if "items" in wanted and isinstance(living.get("items"), dict):
        yield from _lacking(wanted["items"], living["items"], f"{path}[]")
