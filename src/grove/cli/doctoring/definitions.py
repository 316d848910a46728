"""Grove's own kinds: whether they are served, and whether their definitions are those of this version."""

from collections.abc import Iterator, Sequence
from typing import Final

from grove.api import crd, kinds
from grove.cli.doctoring.findings import Finding, failed, fine, unseen, warning
from grove.errors import Forbidden
from grove.kube.client import Client
from grove.meta import Key, Manifest, resource
from grove.words import counted

CRDS: Final = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
_FIX: Final = "grove crds | kubectl apply --server-side -f -"
_LINK: Final = "docs/guides/real-cluster.md#2-install-it"
#: How many fields are named; the rest is counted.
_NAMED: Final = 3


async def definitions_served(client: Client) -> Sequence[Finding]:
    """Whether everything that the operator needs is there, in the form that this version writes."""
    name = "definitions"
    served = (await client.discover()).served
    absent = [str(each) for each in kinds.OURS if each.plural not in served.get(each.api_version, ())]
    if absent:
        return [failed(name, f"the cluster does not serve {', '.join(absent)}", fix=_FIX, link=_LINK)]
    old = []
    for wanted in crd.definitions():
        key = Key("", wanted["metadata"]["name"])
        try:
            living = await client.get(CRDS, key, type=dict)
        except Forbidden:
            said = "all kinds of Grove are served; how old their definitions are, you may not read"
            return [unseen(name, said, link=_LINK)]
        if lacking := list(_lacking(_schema(wanted), _schema(living), "")):
            more = f" and {counted(len(lacking) - _NAMED, 'more')}" if len(lacking) > _NAMED else ""
            old.append(f"{key.name} lacks {', '.join(lacking[:_NAMED])}{more}")
    if old:
        said = f"definitions are older than this grove: {'; '.join(old)}; the API server drops these fields"
        return [warning(name, said, fix=_FIX, link=_LINK)]
    return [fine(name, f"{counted(len(kinds.OURS), 'kind')} of Grove served, as this version defines them")]


def _schema(definition: Manifest) -> Manifest:
    versions = definition.get("spec", {}).get("versions") or ()
    found = [each for each in versions if each.get("name") == kinds.VERSION]
    return (found[0].get("schema") or {}).get("openAPIV3Schema") or {} if found else {}


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
