"""Defaults of the workload kinds (Deployment, StatefulSet, DaemonSet, Job, ...) and rules of selectors.

No controller runs here: these objects are stored as the server would store them and nothing more.
"""

from __future__ import annotations

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.base import IMMUTABLE, Strategy, fill, invalid, required
from grove.embedded.kinds.context import Context
from grove.embedded.kinds.pod_template import default_pod_spec, pod_spec_errors

_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"


class TemplateStrategy(Strategy):
    """A kind with a pod template and a selector that must match it and never changes."""

    def __init__(self, **defaults: object) -> None:
        self._defaults = defaults

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        spec = obj.setdefault("spec", {})
        fill(spec, **{name: _copied(value) for name, value in self._defaults.items()})
        default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj["spec"]
        causes = self._selector_errors(spec)
        if spec.get("replicas", 0) < 0:
            causes.append(invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
        return causes + pod_spec_errors(spec["template"]["spec"], "spec.template.spec")

    def _selector_errors(self, spec: Manifest) -> list[Cause]:
        selector = spec.get("selector")
        if not selector:
            return [required("spec.selector")]
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
            why = "`selector` does not match template `labels`"
            return [invalid("spec.template.metadata.labels", labels, why)]
        return []

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        causes = self.validate_create(new, ctx)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            causes.append(invalid("spec.selector", new["spec"].get("selector"), IMMUTABLE))
        return causes


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return value


class DeploymentStrategy(TemplateStrategy):
    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        strategy = obj["spec"].setdefault("strategy", {})
        fill(strategy, type="RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            fill(strategy, rollingUpdate={})
            fill(strategy["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")


class JobStrategy(TemplateStrategy):
    """A job without a selector gets one that only its own pods match."""

    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("manualSelector") or spec.get("selector"):
            return
        uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
        spec["selector"] = {"matchLabels": {_CONTROLLER_UID: uid}}
        template = spec.setdefault("template", {})
        meta = template["metadata"] = template.get("metadata") or {}
        own = {
            _CONTROLLER_UID: uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        meta["labels"] = {**(meta.get("labels") or {}), **own}

    def default(self, obj: Manifest, ctx: Context) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        super().default(obj, ctx)

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        causes = super().validate_create(obj, ctx)
        policy = obj["spec"]["template"]["spec"].get("restartPolicy")
        if policy not in ("OnFailure", "Never"):
            path = "spec.template.spec.restartPolicy"
            causes.append(required(path, 'valid values: "OnFailure", "Never"'))
        return causes


class CronJobStrategy(Strategy):
    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        spec = obj.setdefault("spec", {})
        fill(
            spec,
            concurrencyPolicy="Allow",
            suspend=False,
            successfulJobsHistoryLimit=3,
            failedJobsHistoryLimit=1,
        )
        job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
        default_pod_spec(job.setdefault("template", {}).setdefault("spec", {}))

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        return [] if obj["spec"].get("schedule") else [required("spec.schedule")]


_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
_ROLLING_DAEMONS = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("apps", "Deployment"): DeploymentStrategy(
        replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600
    ),
    ("apps", "ReplicaSet"): TemplateStrategy(replicas=1),
    ("apps", "StatefulSet"): TemplateStrategy(
        replicas=1,
        revisionHistoryLimit=10,
        podManagementPolicy="OrderedReady",
        updateStrategy=_ROLLING,
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
    ),
    ("apps", "DaemonSet"): TemplateStrategy(revisionHistoryLimit=10, updateStrategy=_ROLLING_DAEMONS),
    ("batch", "Job"): JobStrategy(
        parallelism=1,
        backoffLimit=6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed",
        manualSelector=False,
    ),
    ("batch", "CronJob"): CronJobStrategy(),
}
