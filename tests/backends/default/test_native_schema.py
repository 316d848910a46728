"""The embedded API server, which knows each minor's schemas and rules, accepts what the native backend writes."""

import copy
from types import SimpleNamespace
from typing import cast

import pytest
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.gang import PodGang
from grove.backends.base import Context
from grove.backends.default import DefaultBackend
from grove.embedded.errors import ApiError
from grove.embedded.kinds import strategy_for
from grove.embedded.kinds.context import Context as ServerContext
from grove.embedded.kinds.registry import Registry
from grove.embedded.machinery.schema import builtin_schema
from grove.errors import Unsupported
from grove.meta import Manifest
from grove.testing import make
from grove.testing.conformance import SAMPLES

BACKEND = DefaultBackend()
RACK = "example.com/rack"
GANGS = {
    **{str(capability): gang for capability, gang in SAMPLES.items()},
    "all levels": make.gang(
        "all",
        [
            make.podgroup("a", 1, required="kubernetes.io/hostname"),
            make.podgroup("b", 0),
            make.podgroup("c", 3),
        ],
        groups=[make.group("ab", ["a", "b"], required=RACK)],
        required="topology.kubernetes.io/zone",
        priority="high",
    ),
    "many roles": make.gang("many", {f"role{index}": index % 4 for index in range(30)}),
    "many groups": make.gang(
        "groups",
        {f"role{index}": index for index in range(24)},
        groups=[
            make.group(f"g{at}", [f"role{2 * at}", f"role{2 * at + 1}"], required=RACK) for at in range(12)
        ],
    ),
    "long names": make.gang("n" * 63, {"r" * 63: 1, "s" * 63: 2}, groups=[make.group("g" * 63, ["r" * 63])]),
}
CONTEXTS: dict[str, tuple[str, Context]] = {
    "1.35": ("1.35", on(clusters.V135)),
    "1.35 flat": ("1.35", on(clusters.V135, mode="Flat")),
    "1.36": ("1.36", on(clusters.V136)),
    "1.36 flat": ("1.36", on(clusters.V136, mode="Flat")),
    "1.37 merged": ("1.37", on(clusters.V137_TOPOLOGY)),
    "1.37 tree": ("1.37", on(clusters.V137)),
}


@pytest.mark.parametrize("gang", GANGS.values(), ids=GANGS)
@pytest.mark.parametrize("name", CONTEXTS)
def test_objects_and_pods_pass_schema_and_rules(name: str, gang: PodGang) -> None:
    minor, context = CONTEXTS[name]
    try:
        made = list(BACKEND.translate(gang, context).manifests)
    except Unsupported:
        made = []
    else:
        pods = [make.pod_manifest(each.name, 0, gang=gang) for each in gang.spec.podgroups]
        made += [BACKEND.prepare_pod(pod, gang, context) for pod in pods]
    assert [complaint for each in made for complaint in complaints(minor, each)] == []


@pytest.mark.parametrize("name", CONTEXTS)
def test_probes_pass_schema_and_rules(name: str) -> None:
    minor, context = CONTEXTS[name]
    made = [probe.manifest for probe in BACKEND.traits(context).probes]
    assert [complaint for each in made for complaint in complaints(minor, each)] == []


def test_another_minors_words_are_noticed() -> None:
    [made] = BACKEND.translate(make.gang("g", {"a": 1}), on(clusters.V136)).manifests
    other = {**made, "apiVersion": "scheduling.k8s.io/v1beta1"}
    with pytest.raises(ApiError, match="disruptionMode"):
        complaints("1.37", other)
    unknown = {**made, "spec": {**made["spec"], "parentCompositePodGroupName": "p"}}
    assert complaints("1.36", unknown) == ["spec.parentCompositePodGroupName"]


def complaints(minor: str, manifest: Manifest) -> list[str]:
    """What a server of this minor says against a new object: unknown fields, schema, rules of the kind."""
    resource = Registry(minor).by_kind(manifest["apiVersion"], manifest["kind"])
    assert resource is not None, (
        f"Kubernetes {minor} does not serve {manifest['apiVersion']} {manifest['kind']}"
    )
    schema = builtin_schema(minor, resource.group, resource.version, resource.kind)
    assert schema is not None
    written = copy.deepcopy(manifest)
    unknown = schema.prune(written)
    context = cast(ServerContext, SimpleNamespace(minor=minor, resource=resource, features=None))
    strategy = strategy_for(resource)
    strategy.default(written, context)
    causes = [*schema.validate(written), *strategy.validate_create(written, context)]
    return [*unknown, *(f"{cause.field}: {cause.message}" for cause in causes)]
