"""Everything that the Go operator makes of a set, in its own shape, written down by its specification alone.

Nothing here uses the planner that is tested with it. A set goes through the defaults of the Go operator's CRD
and webhook (`stored`), and becomes objects with their statuses in the order in which they are created
(`objects_of`). Owners are named, not identified: UIDs are filled in by whoever creates the objects.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.adoption.go_pods import (
    ACCOUNTS,
    FINALIZERS,
    NAMESPACE,
    SECRETS,
    GoObject,
    GoRole,
    GoSet,
    PodMaker,
    condition,
    pod_name,
    selector,
)

from grove.api import kinds
from grove.meta import Manifest, Resource, resource

KAI_PODGROUPS: Final = resource("scheduling.run.ai", "v2alpha2", "PodGroup")
VOLCANO_PODGROUPS: Final = resource("scheduling.volcano.sh", "v1beta1", "PodGroup")


def objects_of(taken: GoSet) -> list[GoObject]:
    """The set and all of its children, owners first."""
    return list(_Maker(taken).objects())


class _Maker(PodMaker):
    def objects(self) -> Iterator[GoObject]:
        yield GoObject(kinds.CLIQUESETS, self.set, self._set_status())
        yield from self._access()
        for replica in range(self.set["spec"]["replicas"]):
            yield self._service(replica)
        yield from self._claims_of_set()
        for replica in range(self.set["spec"]["replicas"]):
            yield from self._domains(replica)
            yield from self._autoscalers(replica)
            yield from self._scaling_groups(replica)
            cliques = list(self._cliques(replica))
            for gang in dict.fromkeys(each.gang for each in cliques):
                yield from self._gang(gang, [each for each in cliques if each.gang == gang], replica)
            for clique in cliques:
                yield self._clique(clique, replica)
                yield from self._claims_of_clique(clique)
                for index in range(self._pods(clique)):
                    yield self._pod(clique, replica, index)

    def _metadata(self, name: str, component: str, **more: Any) -> Manifest:
        marks = {
            **self.defaults,
            "app.kubernetes.io/name": name.replace(":", "-"),
            "app.kubernetes.io/component": component,
        }
        return {
            "name": name,
            "namespace": NAMESPACE,
            **more,
            "labels": {**more.get("labels", {}), **marks, **more.get("own", {})},
        }

    def _of_set(
        self,
        kind: Resource,
        name: str,
        component: str,
        own: Mapping[str, str] | None = None,
        *,
        metadata: Manifest | None = None,
        status: Manifest | None = None,
        **body: Any,
    ) -> GoObject:
        made = self._metadata(name, component)
        made["labels"] |= own or {}
        made |= metadata or {}
        if kind in FINALIZERS:
            made["finalizers"] = [FINALIZERS[kind]]
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": made, **body}
        return GoObject(kind, manifest, status, (kinds.CLIQUESETS, self.name))

    # Of the whole set -----------------------------------------------------------------------------

    def _set_status(self) -> Manifest:
        replicas = self.set["spec"]["replicas"]
        return {
            "observedGeneration": 1,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "availableReplicas": replicas,
            "hpaPodSelector": ",".join(f"{key}={value}" for key, value in sorted(self.defaults.items())),
            "currentGenerationHash": self.hash,
        }

    def _access(self) -> Iterator[GoObject]:
        role = f"grove.io:pcs:{self.name}"
        yield self._of_set(ACCOUNTS, self.name, "pod-service-account", automountServiceAccountToken=True)
        rules = [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}]
        yield self._of_set(kinds.ROLES, role, "pod-role", rules=rules)
        group = "rbac.authorization.k8s.io"
        yield self._of_set(
            kinds.ROLE_BINDINGS,
            role,
            "pod-role-binding",
            roleRef={"apiGroup": group, "kind": "Role", "name": role},
            subjects=[{"kind": "ServiceAccount", "name": self.name, "namespace": NAMESPACE}],
        )
        names = [f"{self.name}-ic-sat"]
        names += [f"{self.name}-initc-sa-token-secret"] if self.taken.legacy_secret else []
        for name in names:
            yield self._of_set(
                SECRETS,
                name,
                "pod-sa-token-secret",
                metadata={"annotations": {"kubernetes.io/service-account.name": self.name}},
                type="kubernetes.io/service-account-token",
                data={"token": "dG9rZW4="},
            )

    def _service(self, replica: int) -> GoObject:
        own = {"grove.io/podcliqueset-replica-index": str(replica)}
        config = self.template["headlessServiceConfig"]
        spec = {
            "clusterIP": "None",
            "selector": {**self.defaults, **own},
            "publishNotReadyAddresses": config["publishNotReadyAddresses"],
        }
        return self._of_set(kinds.SERVICES, f"{self.name}-{replica}", "pcs-headless-service", own, spec=spec)

    def _claims_of_set(self) -> Iterator[GoObject]:
        owner = (kinds.CLIQUESETS, self.name)
        for each in self.template.get("resourceSharing", ()):
            if each["scope"] == "AllReplicas":
                yield self._claim(owner, f"{self.name}-all-{each['name']}", each["name"], {})
                continue
            for replica in range(self.set["spec"]["replicas"]):
                own = {"grove.io/podcliqueset-replica-index": str(replica)}
                yield self._claim(owner, f"{self.name}-{replica}-{each['name']}", each["name"], own)

    # Of one replica -------------------------------------------------------------------------------

    def _domains(self, replica: int) -> Iterator[GoObject]:
        found = dict.fromkeys(filter(None, (self._domain(role) for role in self.roles.values())))
        for group in found:
            name = f"{self.name}-{replica}-{group}"
            own = {"grove.io/podcliqueset-replica-index": str(replica), "grove.io/mnnvl-group": group}
            spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}}
            yield self._of_set(kinds.COMPUTE_DOMAINS, name, "pcs-computedomain", own, spec=spec)

    def _autoscalers(self, replica: int) -> Iterator[GoObject]:
        scaled = [
            (role["name"], "PodClique", role["spec"]["autoScalingConfig"])
            for role in self.roles.values()
            if "autoScalingConfig" in role["spec"]
        ]
        scaled += [
            (group["name"], "PodCliqueScalingGroup", group["scaleConfig"])
            for group in self.groups
            if "scaleConfig" in group
        ]
        for name, kind, config in scaled:
            target = f"{self.name}-{replica}-{name}"
            spec = {
                "scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": target},
                **copy.deepcopy(config),
            }
            yield self._of_set(kinds.AUTOSCALERS, target, "pcs-hpa", spec=spec)

    def _group_replicas(self, group: Manifest, replica: int) -> int:
        return self.taken.scaled.get(f"{self.name}-{replica}-{group['name']}", group["replicas"])

    def _scaling_groups(self, replica: int) -> Iterator[GoObject]:
        for group in self.groups:
            name, replicas = f"{self.name}-{replica}-{group['name']}", self._group_replicas(group, replica)
            own = {"grove.io/podcliqueset-replica-index": str(replica)}
            annotations = dict(group.get("annotations", {}))
            if domain := self.set["metadata"].get("annotations", {}).get("grove.io/mnnvl-group"):
                annotations.setdefault("grove.io/mnnvl-group", domain)
            status = {
                "observedGeneration": 1,
                "replicas": replicas,
                "availableReplicas": replicas,
                "scheduledReplicas": replicas,
                "updatedReplicas": replicas,
                "selector": selector({**self.defaults, "grove.io/podcliquescalinggroup": name}),
                "currentPodCliqueSetGenerationHash": self.hash,
                "conditions": [
                    condition(
                        "MinAvailableBreached", "False", "SufficientAvailablePodCliqueScalingGroupReplicas"
                    )
                ],
            }
            yield self._of_set(
                kinds.SCALING_GROUPS,
                name,
                "pcs-podcliquescalinggroup",
                own,
                metadata={"annotations": annotations} if annotations else None,
                status=status,
                spec={
                    "replicas": replicas,
                    "minAvailable": group["minAvailable"],
                    "cliqueNames": list(group["cliqueNames"]),
                },
            )
            for each in group.get("resourceSharing", ()):
                owner, level = (kinds.SCALING_GROUPS, name), {"grove.io/podcliquescalinggroup": name}
                if each["scope"] == "AllReplicas":
                    yield self._claim(owner, f"{name}-all-{each['name']}", each["name"], level)
                    continue
                for number in range(replicas):
                    index = {**level, "grove.io/podcliquescalinggroup-replica-index": str(number)}
                    yield self._claim(owner, f"{name}-{number}-{each['name']}", each["name"], index)

    def _cliques(self, replica: int) -> Iterator[GoRole]:
        """In the order of the podgroups: the base gang, then one gang after the other."""
        base = f"{self.name}-{replica}"
        grouped = {role for group in self.groups for role in group["cliqueNames"]}
        for name, role in self.roles.items():
            if name not in grouped:
                yield GoRole(f"{base}-{name}", role, base)
        for scaled in (False, True):
            for group in self.groups:
                whole, least = f"{base}-{group['name']}", group["minAvailable"]
                numbers = range(least, self._group_replicas(group, replica)) if scaled else range(least)
                for number in numbers:
                    gang = f"{whole}-{number - least}" if scaled else base
                    for name in group["cliqueNames"]:
                        role = self.roles[name]
                        fqn = f"{whole}-{number}-{name}"
                        yield GoRole(fqn, role, gang, base if scaled else "", whole, number, group)

    # Gangs ----------------------------------------------------------------------------------------

    def _gang(self, name: str, members: list[GoRole], replica: int) -> Iterator[GoObject]:
        mirrored = {
            field: {
                key: value
                for key, value in self.set["metadata"].get(field, {}).items()
                if not key.startswith("grove.io/")
            }
            for field in ("labels", "annotations")
        }
        marks = {
            **mirrored["labels"],
            **self.defaults,
            "app.kubernetes.io/component": "podgang",
            "grove.io/scheduler-name": self.scheduler,
        }
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": marks,
            "annotations": mirrored["annotations"],
        }
        spec: Manifest = {
            "podgroups": [
                {
                    "name": each.name,
                    "podReferences": sorted(
                        (
                            {"namespace": NAMESPACE, "name": pod_name(each.name, index)}
                            for index in range(self._pods(each))
                        ),
                        key=lambda reference: reference["name"],
                    ),
                    "minReplicas": each.role["spec"]["minAvailable"],
                }
                for each in members
            ]
        }
        if priority := self.template.get("priorityClassName"):
            spec["priorityClassName"] = priority
        told = condition("Initialized", "True", "PodGangPodsCreated", "PodGang is fully initialized")
        manifest = {
            "apiVersion": kinds.GANGS.api_version,
            "kind": kinds.GANGS.kind,
            "metadata": metadata,
            "spec": spec,
        }
        status = {"phase": "Pending", "conditions": [told]}
        yield GoObject(kinds.GANGS, manifest, status, (kinds.CLIQUESETS, self.name))
        if self.scheduler == "kai-scheduler":
            yield self._kai_podgroup(manifest)
        elif self.scheduler == "volcano":
            yield self._volcano_podgroup(manifest)

    def _kai_podgroup(self, gang: Manifest) -> GoObject:
        groups = gang["spec"]["podgroups"]
        spec = {
            "minMember": sum(each["minReplicas"] for each in groups),
            "queue": self._kai_queue(),
            "subGroups": [{"name": each["name"], "minMember": each["minReplicas"]} for each in groups],
        }
        if "priorityClassName" in gang["spec"]:
            spec["priorityClassName"] = gang["spec"]["priorityClassName"]
        annotations = {**gang["metadata"]["annotations"], "kai.scheduler/skip-podgrouper": "true"}
        metadata = {**gang["metadata"], "annotations": annotations}
        return _scheduler_object(KAI_PODGROUPS, metadata, spec)

    def _kai_queue(self) -> str:
        own = self.set["metadata"]
        sources = [own.get("labels", {}), own.get("annotations", {})]
        for role in self.roles.values():
            sources += [role.get("labels", {}), role.get("annotations", {})]
        return str(next(each["kai.scheduler/queue"] for each in sources if "kai.scheduler/queue" in each))

    def _volcano_podgroup(self, gang: Manifest) -> GoObject:
        groups = gang["spec"]["podgroups"]
        asked = gang["metadata"]["annotations"].get("scheduling.grove.io/volcano-queue", "default")
        spec = {
            "minMember": sum(each["minReplicas"] for each in groups),
            "queue": asked,
            "subGroupPolicy": [
                {
                    "name": each["name"],
                    "labelSelector": {"matchLabels": {"grove.io/podclique": each["name"]}},
                    "matchLabelKeys": ["grove.io/podclique"],
                    "subGroupSize": each["minReplicas"],
                    "minSubGroups": 1,
                }
                for each in groups
            ],
        }
        metadata = {key: gang["metadata"][key] for key in ("name", "namespace", "labels")}
        return _scheduler_object(VOLCANO_PODGROUPS, metadata, spec)


def _scheduler_object(kind: Resource, metadata: Manifest, spec: Manifest) -> GoObject:
    manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": copy.deepcopy(metadata),
        "spec": spec,
    }
    return GoObject(kind, manifest, None, (kinds.GANGS, str(metadata["name"])))


__all__ = ["ACCOUNTS", "NAMESPACE", "SECRETS", "GoObject", "GoSet", "objects_of"]
