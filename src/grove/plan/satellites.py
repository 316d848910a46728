"""What stands around the pods of a replica: its headless service. Pure."""

from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Manifest, owner_reference


def desired_service(cliqueset: PodCliqueSet, replica: int) -> Manifest:
    """The headless service through which the pods of one replica find each other."""
    name = names.service(cliqueset.name, replica)
    selector = {**labels.owned_by(cliqueset.name), labels.SET_REPLICA_INDEX: str(replica)}
    config = cliqueset.template.headless_service_config
    return {
        "apiVersion": kinds.SERVICES.api_version,
        "kind": kinds.SERVICES.kind,
        "metadata": {
            "name": name,
            "namespace": cliqueset.namespace,
            "labels": {**selector, labels.NAME: name, labels.COMPONENT: labels.COMPONENT_SERVICE},
            "ownerReferences": [owner_reference(cliqueset, kinds.CLIQUESETS.gvk)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            # Roles look each other up before they are ready: unready addresses are published unless refused.
            "publishNotReadyAddresses": config is None or config.publish_not_ready_addresses,
        },
    }
