"""The resources that Grove serves and the ones of others that it touches, by name."""

from typing import Final

from grove.meta import Resource, resource

GROUP: Final = "grove.io"
SCHEDULER_GROUP: Final = "scheduler.grove.io"
VERSION: Final = "v1alpha1"

CLIQUESETS: Final = resource(GROUP, VERSION, "PodCliqueSet")
CLIQUES: Final = resource(GROUP, VERSION, "PodClique")
SCALING_GROUPS: Final = resource(GROUP, VERSION, "PodCliqueScalingGroup")
TOPOLOGY_BINDINGS: Final = resource(GROUP, VERSION, "ClusterTopologyBinding", namespaced=False)
GANGS: Final = resource(SCHEDULER_GROUP, VERSION, "PodGang")

PODS: Final = resource("", "v1", "Pod")
SERVICES: Final = resource("", "v1", "Service")
CONTROLLER_REVISIONS: Final = resource("apps", "v1", "ControllerRevision")
SERVICE_ACCOUNTS: Final = resource("", "v1", "ServiceAccount")
AUTOSCALERS: Final = resource("autoscaling", "v2", "HorizontalPodAutoscaler")
ROLES: Final = resource("rbac.authorization.k8s.io", "v1", "Role")
ROLE_BINDINGS: Final = resource("rbac.authorization.k8s.io", "v1", "RoleBinding")
RESOURCE_CLAIMS: Final = resource("resource.k8s.io", "v1", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES: Final = resource("resource.k8s.io", "v1", "ResourceClaimTemplate")
DISRUPTION_BUDGETS: Final = resource("policy", "v1", "PodDisruptionBudget")
COMPUTE_DOMAINS: Final = resource("resource.nvidia.com", "v1beta1", "ComputeDomain")

#: Everything that must be installed before the operator can work.
OURS: Final[tuple[Resource, ...]] = (CLIQUESETS, CLIQUES, SCALING_GROUPS, TOPOLOGY_BINDINGS, GANGS)
