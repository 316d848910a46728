"""Whose the replicas of a child are: the template's, until somebody scales the child. Pure."""

from grove.api import labels
from grove.meta import Manifest, Object


def keep_scaled(desired: Manifest, living: Object, *, autoscaled: bool) -> Manifest:
    """What a living child is compared with: without replicas, which are left to whoever scales it.

    When the template's own value is edited, the edit reaches the child, unless the template asks for an
    autoscaler: then it counts at creation only. Which value was applied last stands in an annotation.
    """
    before = living.annotations.get(labels.TEMPLATE_REPLICAS)
    now = desired["metadata"]["annotations"][labels.TEMPLATE_REPLICAS]
    if before is None or before == now or autoscaled:
        desired["spec"].pop("replicas")
    return desired
