"""NVIDIA's ComputeDomains for tests: the definition, as far as an operator sees it, and sets that use them."""

from collections.abc import Iterable
from typing import Final

from tests.scenarios.stories import GPU

from grove.api import kinds
from grove.api.config import load
from grove.meta import Manifest
from grove.testing import make
from grove.testing.world import CONFIGURATION, WorldOptions

GROUP: Final = "grove.io/mnnvl-group"

#: NVIDIA's definition says the same of the fields that Grove writes; its status and its other fields are left out.
DEFINITION: Final[Manifest] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": str(kinds.COMPUTE_DOMAINS)},
    "spec": {
        "group": kinds.COMPUTE_DOMAINS.gvk.group,
        "names": {
            "kind": "ComputeDomain",
            "listKind": "ComputeDomainList",
            "plural": "computedomains",
            "singular": "computedomain",
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "required": ["channel", "numNodes"],
                                "properties": {
                                    "numNodes": {"type": "integer"},
                                    "channel": {
                                        "type": "object",
                                        "required": ["resourceClaimTemplate"],
                                        "properties": {
                                            "resourceClaimTemplate": {
                                                "type": "object",
                                                "required": ["name"],
                                                "properties": {"name": {"type": "string"}},
                                            }
                                        },
                                    },
                                },
                                "x-kubernetes-validations": [
                                    {
                                        "rule": "self == oldSelf",
                                        "message": "A computeDomain.spec is immutable",
                                    }
                                ],
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}

ENABLED: Final = WorldOptions(configuration=load(f"{CONFIGURATION}\nnetwork: {{autoMNNVLEnabled: true}}\n"))


def role(name: str, replicas: int = 1, *, gpus: int = 1, group: str = "", **more: object) -> Manifest:
    """A role with a container that asks for GPUs and one that does not; without GPUs, with neither."""
    made = {**make.template(name, replicas), **more}
    main = made["spec"]["podSpec"]["containers"][0]
    main.pop("resources", None)
    if gpus:
        main["resources"] = {"limits": {GPU: str(gpus)}}
    made["spec"]["podSpec"]["containers"].append({"name": "side", "image": "side"})
    if group:
        made["annotations"] = {**made.get("annotations", {}), GROUP: group}
    return made


def cliqueset(roles: list[Manifest], *, group: str = "", name: str = "job", **fields: object) -> Manifest:
    annotations = {GROUP: group} if group else {}
    return make.cliqueset_manifest(name, roles, annotations=annotations, **fields)  # type: ignore[arg-type]


JOINED: Final = [["mnnvl-claim"], []]
ALONE: Final[list[list[str]]] = [[], []]


def joined(pods: Iterable[Manifest]) -> dict[str, tuple[list[str], list[list[str]]]]:
    """By hostname: the templates of the pod's claims, and the claims that each container uses."""
    return {
        pod["spec"]["hostname"]: (
            [each["resourceClaimTemplateName"] for each in pod["spec"].get("resourceClaims") or ()],
            [
                [each["name"] for each in container.get("resources", {}).get("claims") or ()]
                for container in pod["spec"]["containers"]
            ],
        )
        for pod in pods
    }


def mixed() -> Manifest:
    """Roles with and without GPUs, alone and in scaling groups."""
    roles = [role("gpu1"), role("cpu1", gpus=0), role("gpu2"), role("cpu2", gpus=0), role("cpu3", gpus=0)]
    groups = [make.scaling_group("sg1", ["gpu2", "cpu2"]), make.scaling_group("sg2", ["cpu3"])]
    return cliqueset(roles, group="default", groups=groups)


MIXED: Final = {
    "job-0-gpu1-0": (["job-0-default"], JOINED),
    "job-0-cpu1-0": ([], ALONE),
    "job-0-sg1-0-gpu2-0": (["job-0-default"], JOINED),
    "job-0-sg1-0-cpu2-0": ([], ALONE),
    "job-0-sg2-0-cpu3-0": ([], ALONE),
}
