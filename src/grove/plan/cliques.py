"""The cliques of a set: one per replica and role. Pure."""

from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.meta import Manifest, owner_reference
from grove.plan.hashing import template_hash
from grove.plan.mirroring import record


def desired_clique(
    cliqueset: PodCliqueSet,
    replica: int,
    template: PodCliqueTemplate,
    *,
    minimum: int | None = None,
    decided: int | None = None,
) -> Manifest:
    """The clique of one role in one replica.

    `spec.replicas` belongs to whoever scales the clique, until the template's value is edited: which value
    was applied last stands in an annotation. So does a minimum that was `decided` because the template has
    none.
    """
    name = names.clique(cliqueset.name, replica, template.name)
    spec = template.spec
    autoscaling = spec.auto_scaling_config
    annotations = {key: value for key, value in template.annotations.items() if key != labels.TOPOLOGY_NAME}
    return {
        "apiVersion": kinds.CLIQUES.api_version,
        "kind": kinds.CLIQUES.kind,
        "metadata": {
            "name": name,
            "namespace": cliqueset.namespace,
            "labels": {
                **template.labels,
                **labels.owned_by(cliqueset.name),
                labels.NAME: name,
                labels.COMPONENT: labels.COMPONENT_CLIQUE,
                labels.SET_REPLICA_INDEX: str(replica),
                labels.POD_GANG: names.base_gang(cliqueset.name, replica),
                labels.POD_TEMPLATE_HASH: template_hash(
                    template, priority_class=cliqueset.template.priority_class_name
                ),
            },
            "annotations": {
                **annotations,
                **record(template.labels, annotations),
                labels.TEMPLATE_REPLICAS: str(spec.replicas),
                labels.DECIDED_MINIMUM: None if decided is None else str(decided),
            },
            "ownerReferences": [owner_reference(cliqueset, kinds.CLIQUESETS.gvk)],
        },
        "spec": {
            "roleName": spec.role_name,
            "podSpec": spec.pod_spec,
            "replicas": spec.replicas,
            "minAvailable": spec.minimum if minimum is None else minimum,
            "autoScalingConfig": None
            if autoscaling is None
            else {
                "minReplicas": autoscaling.min_replicas,
                "maxReplicas": autoscaling.max_replicas,
                "metrics": list(autoscaling.metrics) or None,
            },
        },
    }
