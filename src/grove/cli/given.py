"""What the files of `grove render` hold beside sets: objects that the operator would find, its configuration.

Objects of kinds on which no set depends are ignored. Asks no cluster.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from grove.admission import validate_topology_binding
from grove.api import kinds
from grove.api.claim import ResourceClaimTemplate
from grove.api.cliqueset import PodCliqueSet
from grove.api.config import API_VERSION, KIND, OperatorConfiguration, load
from grove.api.decode import decode
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend
from grove.backends.registry import BUILT_INS, Registry
from grove.backends.sample import sample_of
from grove.cli.documents import Document
from grove.cli.talk import Refused
from grove.errors import InvalidConfiguration, InvalidInput
from grove.extensions import configs_for, installed, registry_for
from grove.meta import Key, Manifest
from grove.plan.sharing import external_templates

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Given:
    """What is known beside a set."""

    #: The ClusterTopologyBindings, by name.
    bindings: Mapping[str, ClusterTopologyBinding] = field(default_factory=dict)
    #: What the ResourceClaimTemplates say.
    claim_templates: Mapping[Key, Manifest] = field(default_factory=dict)
    #: None for an operator in which every backend is enabled, configured as its sample says.
    configuration: OperatorConfiguration | None = None

    def registry(self) -> Registry:
        """The enabled backends: those of the configuration, or all that are installed."""
        if self.configuration is not None:
            return registry_for(self.configuration.scheduler)
        others = third_parties()
        names = [*BUILT_INS, *(each.name for each in others)]
        return Registry.of(names, "default", third_parties=others)

    def config_of(self, backend: Backend) -> Manifest:
        """How a backend is configured."""
        if self.configuration is not None:
            return configs_for(self.registry(), self.configuration.scheduler).get(backend.name, {})
        return dict(sample_of(backend.name).preview_config) if backend.name in BUILT_INS else {}

    def notices(self, cliqueset: PodCliqueSet) -> Iterator[str]:
        """What of a set is not shown because it depends on objects that are not given."""
        for key in external_templates(cliqueset):
            if key not in self.claim_templates:
                yield f"ResourceClaimTemplate {key} is in none of the files: claims from it are not shown"


def third_parties() -> list[Backend]:
    """The backends of other packages that can be used."""
    return [each.backend for each in installed() if each.backend is not None]


def given_in(documents: Sequence[Document]) -> Given:
    """What the documents hold beside sets; raises Refused with everything that is wrong with it."""
    bindings = _read([each for each in documents if is_ours(each, "ClusterTopologyBinding")], _binding)
    wanted = (kinds.RESOURCE_CLAIM_TEMPLATES.api_version, kinds.RESOURCE_CLAIM_TEMPLATES.kind)
    templates = _read([each for each in documents if (each.api_version, each.kind) == wanted], _template)
    configurations = [each for each in documents if (each.api_version, each.kind) == (API_VERSION, KIND)]
    if len(configurations) > 1:
        raise Refused([f"{configurations[1].place}: is the second {KIND}; an operator has one"])
    return Given(
        {each.name: each for each in bindings},
        {Key(each.namespace or "default", each.name): each.spec.spec for each in templates},
        next(iter(_read(configurations, _configuration)), None),
    )


def is_ours(document: Document, kind: str) -> bool:
    """Whether the document is one of our kinds; another version of it would be silently ignored otherwise."""
    if document.kind != kind or not document.api_version.startswith(f"{kinds.GROUP}/"):
        return False
    if document.api_version != f"{kinds.GROUP}/{kinds.VERSION}":
        raise Refused([f"{document.place}: apiVersion: must be {kinds.GROUP}/{kinds.VERSION}"])
    return True


def _read(documents: Sequence[Document], reader: Callable[[Manifest], T]) -> list[T]:
    found: list[T] = []
    refusals: list[str] = []
    for document in documents:
        try:
            found.append(reader(document.manifest))
        except InvalidInput as error:
            refusals += [f"{document.place}: {each}" for each in error.errors]
        except InvalidConfiguration as error:
            refusals.append(f"{document.place}: {error}")
    if refusals:
        raise Refused(refusals)
    return found


def _binding(manifest: Manifest) -> ClusterTopologyBinding:
    """A topology as the operator would understand it."""
    decode(manifest, ClusterTopologyBinding, strict=True)
    binding = decode(with_uid(manifest), ClusterTopologyBinding)
    if errors := validate_topology_binding(binding):
        raise InvalidInput(errors)
    return binding


def _template(manifest: Manifest) -> ResourceClaimTemplate:
    return decode(manifest, ResourceClaimTemplate)


def _configuration(manifest: Manifest) -> OperatorConfiguration:
    """A configuration that names no backend which is not there."""
    configuration = load(json.dumps(manifest))
    registry_for(configuration.scheduler)
    return configuration


def with_uid(manifest: Manifest) -> Manifest:
    """The manifest with a UID that follows from what it is and where it lives."""
    metadata = manifest.get("metadata") or {}
    place = "/".join(
        str(each or "")
        for each in (
            manifest.get("apiVersion"),
            manifest.get("kind"),
            metadata.get("namespace"),
            metadata.get("name"),
        )
    )
    uid = metadata.get("uid") or str(uuid.uuid5(uuid.NAMESPACE_URL, f"grove:{place}"))
    return {**manifest, "metadata": {**metadata, "uid": uid}}
