"""The part of a HorizontalPodAutoscaler that Grove reads: what it wrote there itself."""

from grove.meta import Manifest, Object, View


class ScaleTarget(View):
    """Whose scale subresource an autoscaler writes."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class AutoscalerSpec(View):
    scale_target_ref: ScaleTarget = ScaleTarget()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[Manifest, ...] = ()


class HorizontalPodAutoscaler(Object):
    """Scales a clique or a scaling group by load."""

    spec: AutoscalerSpec = AutoscalerSpec()
