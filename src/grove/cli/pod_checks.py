"""What of a role's pod template an API server would refuse, found without one: `grove render`.

Uses the schemas and rules by which the embedded cluster judges pods. They know unknown fields, wrong types
and what is required; whatever depends on a cluster (priority classes, quotas, webhooks) only a cluster knows.
"""

import copy

from grove.admission.templates import Trial, meant, refusal_of
from grove.embedded.errors import ApiError
from grove.embedded.kinds.pod_template import default_pod_spec, pod_spec_errors
from grove.embedded.machinery.schema import builtin_schema
from grove.errors import BadRequest, FieldError


def template_errors(trial: Trial, minor: str) -> list[FieldError]:
    """Everything wrong with the template of one role, as far as one Kubernetes minor can be known."""
    schema = builtin_schema(minor, "", "v1", "Pod")
    assert schema is not None, f"every minor has pods, {minor} too"
    pod = copy.deepcopy(trial.pod)
    unknown = [FieldError(trial.field(path), f"unknown field{meant(path)}") for path in schema.prune(pod)]
    try:
        schema.validate(pod)
    except ApiError as undecodable:
        refusal = refusal_of(trial, BadRequest(str(undecodable)))
        return [*unknown, *(refusal.errors if refusal is not None else ())]
    default_pod_spec(pod["spec"])
    causes = pod_spec_errors(pod["spec"], "spec")
    return [*unknown, *(FieldError(trial.field(cause.field), cause.message) for cause in causes)]
