"""The cliques and pods that the Go operator makes of a set, with the defaults that it fills in before.

Written down by its specification alone; `go_shapes` makes everything else.
"""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from grove.api import kinds
from grove.meta import Manifest, Resource, resource

MANAGER: Final = "grove-operator"
GATE: Final = "grove.io/podgang-pending-creation"
NAMESPACE: Final = "default"
TOKENS: Final = "sa-token-secret-vol"
WAIT_IMAGE: Final = "registry.example.com/grove-initc:v0.1.0"

ACCOUNTS: Final = resource("", "v1", "ServiceAccount")
SECRETS: Final = resource("", "v1", "Secret")

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
FINALIZERS: Final = {
    kinds.CLIQUESETS: "grove.io/podcliqueset.grove.io",
    kinds.CLIQUES: "grove.io/podclique.grove.io",
    kinds.SCALING_GROUPS: "grove.io/podcliquescalinggroup.grove.io",
    kinds.COMPUTE_DOMAINS: "grove.io/computedomain-finalizer",
}


class GoObject(NamedTuple):
    """An object, its status, and the kind and name of the object that controls it."""

    resource: Resource
    manifest: Manifest
    status: Manifest | None = None
    owner: tuple[Resource, str] | None = None

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True)
class GoSet:
    """A set as the Go operator runs it."""

    manifest: Manifest
    #: Replicas of cliques and scaling groups that somebody scaled, by name.
    scaled: Mapping[str, int] = field(default_factory=dict)
    #: Replicas of roles that were edited in the template since their cliques were made, as they were then.
    born: Mapping[str, int] = field(default_factory=dict)
    #: The gangs whose pods are still behind their gates.
    gated: frozenset[str] = frozenset()
    #: By topology domain, the node label that the set's binding gives it.
    levels: Mapping[str, str] = field(default_factory=dict)
    #: Whether the Secret of releases before the present one is still there.
    legacy_secret: bool = False

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


def opaque(*text: str, length: int = 14) -> str:
    """Characters of the kind that the Go operator uses; what they stand for nobody else can tell."""
    digest = hashlib.sha1("/".join(text).encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:length])


# Defaults -----------------------------------------------------------------------------------------


def stored(manifest: Manifest) -> Manifest:
    """A set as the API server has it: with the defaults of CRD and webhook, and the Go operator's finalizer."""
    made = copy.deepcopy(manifest)
    made["metadata"].setdefault("namespace", NAMESPACE)
    made["metadata"]["finalizers"] = [FINALIZERS[kinds.CLIQUESETS]]
    spec, template = made["spec"], made["spec"]["template"]
    spec.setdefault("replicas", 0)
    template.setdefault("cliqueStartupType", "CliqueStartupTypeAnyOrder")
    template.setdefault("terminationDelay", "4h0m0s")
    template.setdefault("headlessServiceConfig", {"publishNotReadyAddresses": True})
    for role in template["cliques"]:
        _default_role(role["spec"])
    for group in template.get("podCliqueScalingGroups", ()):
        group.setdefault("replicas", 1)
        group.setdefault("minAvailable", 1)
        if "scaleConfig" in group:
            group["scaleConfig"].setdefault("minReplicas", group["replicas"])
    return made


def _default_role(spec: Manifest) -> None:
    spec.setdefault("roleName", "")
    spec.setdefault("replicas", 1)
    spec.setdefault("minAvailable", spec["replicas"])
    if "autoScalingConfig" in spec:
        spec["autoScalingConfig"].setdefault("minReplicas", spec["replicas"])
    pods = spec["podSpec"]
    pods.setdefault("restartPolicy", "Always")
    pods.setdefault("terminationGracePeriodSeconds", 30)
    for container in (*pods["containers"], *pods.get("initContainers", ())):
        container.setdefault("resources", {})
        for port in container.get("ports", ()):
            port.setdefault("protocol", "TCP")


# Cliques and their pods ---------------------------------------------------------------------------


class GoRole(NamedTuple):
    """One clique: its role, its names, and the replica of a scaling group that it is of."""

    name: str
    role: Manifest
    gang: str
    base: str = ""
    group: str = ""
    number: int = 0
    config: Manifest | None = None


class PodMaker:
    """Makes the cliques of a set, their pods, and the claims that these share."""

    def __init__(self, taken: GoSet) -> None:
        self.taken = taken
        self.set = stored(taken.manifest)
        self.name = taken.name
        self.template = self.set["spec"]["template"]
        self.roles = {role["name"]: role for role in self.template["cliques"]}
        self.groups = self.template.get("podCliqueScalingGroups", [])
        self.scheduler = next(
            filter(None, (role["spec"]["podSpec"].get("schedulerName") for role in self.roles.values())),
            "default-scheduler",
        )
        self.hash = opaque("set", self.name)

    # Names and labels -----------------------------------------------------------------------------

    @property
    def defaults(self) -> dict[str, str]:
        return {"app.kubernetes.io/managed-by": MANAGER, "app.kubernetes.io/part-of": self.name}

    def _domain(self, role: Manifest) -> str:
        """The NVLink domain that a role with GPUs belongs to: by its own word, its group's, or the set's."""
        config = self._config_of(role["name"]) or {}
        layers = (role, config, self.set["metadata"])
        found = (each.get("annotations", {}).get("grove.io/mnnvl-group") for each in layers)
        chosen = next(filter(None, found), "none")
        return "" if chosen == "none" or not any(map(_has_gpus, _containers(role))) else chosen

    def _config_of(self, role: str) -> Manifest | None:
        return next((each for each in self.groups if role in each["cliqueNames"]), None)

    def _claim(
        self, owner: tuple[Resource, str], name: str, template: str, own: Mapping[str, str]
    ) -> GoObject:
        found = {each["name"]: each for each in self.template["resourceClaimTemplates"]}[template]
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {**self.defaults, "app.kubernetes.io/component": "resource-claim", **own},
        }
        kind = kinds.RESOURCE_CLAIMS
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata,
            "spec": copy.deepcopy(found["templateSpec"]["spec"]),
        }
        return GoObject(kind, manifest, None, owner)

    # Cliques and pods -----------------------------------------------------------------------------

    def _pods(self, clique: GoRole) -> int:
        return self.taken.scaled.get(clique.name, clique.role["spec"]["replicas"])

    def _labels(self, clique: GoRole, replica: int) -> dict[str, str]:
        found = {
            **clique.role.get("labels", {}),
            **self.defaults,
            "app.kubernetes.io/name": clique.name,
            "app.kubernetes.io/component": "pcsg-podclique" if clique.group else "pcs-podclique",
            "grove.io/podcliqueset-replica-index": str(replica),
            "grove.io/podgang": clique.gang,
            "grove.io/pod-template-hash": opaque("role", self.name, clique.role["name"]),
        }
        if clique.group:
            found["grove.io/podcliquescalinggroup"] = clique.group
            found["grove.io/podcliquescalinggroup-replica-index"] = str(clique.number)
        if clique.base:
            found["grove.io/base-podgang"] = clique.base
        return found

    def _annotations(self, clique: GoRole) -> dict[str, str]:
        given = clique.role.get("annotations", {})
        return {key: value for key, value in given.items() if key != "grove.io/topology-name"}

    def _clique(self, clique: GoRole, replica: int) -> GoObject:
        spec = clique.role["spec"]
        pods, gated = self._pods(clique), clique.gang in self.taken.gated
        made: Manifest = {
            "roleName": spec["roleName"],
            "podSpec": self._template_of(clique, replica),
            "replicas": pods,
            "minAvailable": spec["minAvailable"],
        }
        if parents := list(self._parents(clique, replica)):
            made["startsAfter"] = parents
        if "autoScalingConfig" in spec:
            made["autoScalingConfig"] = copy.deepcopy(spec["autoScalingConfig"])
        marks = self._labels(clique, replica)
        metadata: Manifest = {
            "name": clique.name,
            "namespace": NAMESPACE,
            "labels": marks,
            "finalizers": [FINALIZERS[kinds.CLIQUES]],
        }
        if annotations := self._annotations(clique):
            metadata["annotations"] = annotations
        placed = 0 if gated else pods
        status: Manifest = {
            "observedGeneration": 1,
            "replicas": pods,
            "readyReplicas": placed,
            "scheduledReplicas": placed,
            "scheduleGatedReplicas": pods - placed,
            "updatedReplicas": pods,
            "currentPodCliqueSetGenerationHash": self.hash,
            "currentPodTemplateHash": marks["grove.io/pod-template-hash"],
            "conditions": [
                condition("PodCliqueScheduled", "False", "InsufficientScheduledPods")
                if gated
                else condition("PodCliqueScheduled", "True", "SufficientScheduledPods"),
                condition("MinAvailableBreached", "True", "ScheduledReplicasBelowMinAvailable")
                if gated
                else condition("MinAvailableBreached", "False", "SufficientReadyPods"),
            ],
        }
        if not clique.group:
            status["hpaPodSelector"] = selector({**self.defaults, "grove.io/podclique": clique.name})
        owner = (kinds.SCALING_GROUPS, clique.group) if clique.group else (kinds.CLIQUESETS, self.name)
        manifest = {
            "apiVersion": kinds.CLIQUES.api_version,
            "kind": kinds.CLIQUES.kind,
            "metadata": metadata,
            "spec": made,
        }
        return GoObject(kinds.CLIQUES, manifest, status, owner)

    def _template_of(self, clique: GoRole, replica: int) -> Manifest:
        """The podSpec of a clique: that of its role, with its NVLink domain and what its group tells."""
        pods: Manifest = copy.deepcopy(clique.role["spec"]["podSpec"])
        if group := self._domain(clique.role):
            name = f"{self.name}-{replica}-{group}"
            pods["resourceClaims"] = [{"name": "mnnvl-claim", "resourceClaimTemplateName": name}]
            for container in filter(_has_gpus, _all_containers(pods)):
                container["resources"]["claims"] = [{"name": "mnnvl-claim"}]
        if clique.config is not None:
            members = clique.config["cliqueNames"]
            born = self.taken.born
            count = sum(born.get(name, self.roles[name]["spec"]["replicas"]) for name in members)
            _prepend(
                pods,
                [
                    _field("GROVE_PCSG_NAME", "grove.io/podcliquescalinggroup"),
                    {"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": str(count)},
                    _field("GROVE_PCSG_INDEX", "grove.io/podcliquescalinggroup-replica-index"),
                ],
            )
        return pods

    def _parents(self, clique: GoRole, replica: int) -> Iterator[str]:
        base, listed = f"{self.name}-{replica}", list(self.roles)
        startup = self.template["cliqueStartupType"]
        named: list[str] = []
        if startup == "CliqueStartupTypeInOrder":
            position = listed.index(clique.role["name"])
            named = listed[position - 1 : position] if position else []
        elif startup == "CliqueStartupTypeExplicit":
            named = clique.role["spec"].get("startsAfter", [])
        for parent in named:
            config = self._config_of(parent)
            if clique.base:
                if config is clique.config:
                    yield f"{clique.group}-{clique.number}-{parent}"
            elif config is None:
                yield f"{base}-{parent}"
            else:
                for number in range(config["minAvailable"]):
                    yield f"{base}-{config['name']}-{number}-{parent}"

    def _claims_of_clique(self, clique: GoRole) -> Iterator[GoObject]:
        owner, level = (kinds.CLIQUES, clique.name), {"grove.io/podclique": clique.name}
        for each in clique.role.get("resourceSharing", ()):
            if each["scope"] == "AllReplicas":
                yield self._claim(owner, f"{clique.name}-all-{each['name']}", each["name"], level)
                continue
            for index in range(self._pods(clique)):
                own = {**level, "grove.io/podclique-pod-index": str(index)}
                yield self._claim(owner, f"{clique.name}-{index}-{each['name']}", each["name"], own)

    def _pod(self, clique: GoRole, replica: int, index: int) -> GoObject:
        spec = self._template_of(clique, replica)
        gated = clique.gang in self.taken.gated
        if gated:
            spec["schedulingGates"] = [{"name": GATE}]
        spec["schedulerName"] = self.scheduler
        spec["hostname"], spec["subdomain"] = f"{clique.name}-{index}", f"{self.name}-{replica}"
        _prepend(
            spec,
            [
                {"name": "GROVE_PCS_NAME", "value": self.name},
                {"name": "GROVE_PCS_INDEX", "value": str(replica)},
                {"name": "GROVE_PCLQ_NAME", "value": clique.name},
                {
                    "name": "GROVE_HEADLESS_SERVICE",
                    "value": f"{self.name}-{replica}.{NAMESPACE}.svc.cluster.local",
                },
                _field("GROVE_PCLQ_POD_INDEX", "grove.io/podclique-pod-index"),
            ],
        )
        _share(spec, list(self._shared(clique, replica, index)))
        if parents := list(self._parents(clique, replica)):
            self._wait(spec, parents)
        marks = {
            **self._labels(clique, replica),
            "grove.io/podclique": clique.name,
            "grove.io/podclique-pod-index": str(index),
        }
        annotations = self._annotations(clique)
        if self.scheduler == "kai-scheduler":
            marks["kai.scheduler/subgroup-name"] = clique.name
            annotations |= {"kai.scheduler/skip-podgrouper": "true", "pod-group-name": clique.gang}
        elif self.scheduler == "volcano":
            annotations |= {
                "scheduling.volcano.sh/group-name": clique.gang,
                "scheduling.k8s.io/group-name": clique.gang,
            }
        metadata: Manifest = {
            "generateName": f"{clique.name}-",
            "name": pod_name(clique.name, index),
            "namespace": NAMESPACE,
            "labels": marks,
        }
        if annotations:
            metadata["annotations"] = annotations
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return GoObject(kinds.PODS, manifest, None, (kinds.CLIQUES, clique.name))

    def _shared(self, clique: GoRole, replica: int, index: int) -> Iterator[str]:
        """The claims of a pod, from the widest level to the narrowest."""
        config, role = clique.config, clique.role
        levels: list[tuple[str, int, list[Manifest]]] = [
            (self.name, replica, self.template.get("resourceSharing", []))
        ]
        if config is not None:
            levels.append((clique.group, clique.number, config.get("resourceSharing", [])))
        levels.append((clique.name, index, role.get("resourceSharing", [])))
        candidates = {role["name"], config["name"] if config is not None else ""}
        for owner, number, shared in levels:
            mine = [each for each in shared if _reaches(each, candidates)]
            for scope, middle in (("AllReplicas", "all"), ("PerReplica", str(number))):
                yield from (f"{owner}-{middle}-{each['name']}" for each in mine if each["scope"] == scope)

    def _wait(self, spec: Manifest, parents: list[str]) -> None:
        def minimum(parent: str) -> int:
            role = max((name for name in self.roles if parent.endswith(f"-{name}")), key=len)
            return int(self.roles[role]["spec"]["minAvailable"])

        mounts = [
            {"name": "pod-info-vol", "mountPath": "/var/grove/pod-info", "readOnly": True},
            {
                "name": TOKENS,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": True,
            },
        ]
        container = {
            "name": "grove-initc",
            "image": WAIT_IMAGE,
            "args": [f"--podcliques={parent}:{minimum(parent)}" for parent in parents],
            "resources": {},
            "volumeMounts": mounts,
        }
        secret = f"{self.name}-initc-sa-token-secret" if self.taken.legacy_secret else f"{self.name}-ic-sat"
        spec["initContainers"] = [*spec.get("initContainers", ()), container]
        spec["volumes"] = [
            *spec.get("volumes", ()),
            {"name": TOKENS, "secret": {"secretName": secret, "defaultMode": 420}},
            {
                "name": "pod-info-vol",
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
                        {
                            "path": "podgangname",
                            "fieldRef": {"fieldPath": "metadata.labels['grove.io/podgang']"},
                        },
                    ]
                },
            },
        ]


def pod_name(clique: str, index: int) -> str:
    return f"{clique}-{opaque('pod', clique, str(index), length=5)}"


def condition(type_: str, status: str, reason: str, message: str = "") -> Manifest:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _containers(role: Manifest) -> list[Manifest]:
    return _all_containers(role["spec"]["podSpec"])


def _all_containers(pods: Manifest) -> list[Manifest]:
    return [*pods["containers"], *pods.get("initContainers", ())]


def _has_gpus(container: Manifest) -> bool:
    asked = container.get("resources", {})
    return any("nvidia.com/gpu" in asked.get(kind, {}) for kind in ("limits", "requests"))


def _field(name: str, label: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


def _prepend(pods: Manifest, variables: list[Manifest]) -> None:
    ours = {each["name"] for each in variables}
    for container in _all_containers(pods):
        theirs = [each for each in container.get("env", ()) if each["name"] not in ours]
        container["env"] = [*copy.deepcopy(variables), *theirs]


def _share(pods: Manifest, claims: list[str]) -> None:
    if not claims:
        return
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    pods["resourceClaims"] = [*pods.get("resourceClaims", ()), *entries]
    for container in _all_containers(pods):
        uses = [{"name": each} for each in claims]
        container["resources"]["claims"] = [*container["resources"].get("claims", ()), *uses]


def _reaches(sharing: Manifest, candidates: set[str]) -> bool:
    if "filter" not in sharing:
        return True
    chosen = sharing["filter"]
    return not candidates.isdisjoint(
        [*chosen.get("childCliqueNames", ()), *chosen.get("childScalingGroupNames", ())]
    )
