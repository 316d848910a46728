"""What the API server refuses by itself: rules in CEL that reach where types and bounds cannot.

A rule belongs to a view (`PodCliqueTemplate`) or to one of its fields (`PodCliqueSetTemplate.cliques`).
Every list that a rule walks is bounded in the schema: the API server refuses a definition whose rules could
cost too much. Messages that name values are put together by `format` alone: the API server cannot bound the
cost of a sentence that is joined from texts. `grove.admission` repeats these rules with better messages and
adds what CEL cannot say, such as cycles.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from grove.api import labels, names
from grove.meta import Manifest

_FORBIDDEN: Final = "FieldValueForbidden"
_REQUIRED: Final = "FieldValueRequired"
_IMMUTABLE: Final = "field is immutable; delete the PodCliqueSet and create it again to change it"
_PACK_DOMAIN: Final = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
_GROUPS: Final = "self.podCliqueScalingGroups"
_BUDGET: Final = names.NAME_BUDGET
#: The first clique whose name is too long with that of its set.
_TOO_LONG: Final = (
    f"self.spec.template.cliques.filter(c, size(self.metadata.name) + size(c.name) > {_BUDGET})[0]"
)
_IS_A_CLIQUE: Final = "self.cliques.exists(o, o.name == n)"
#: The first name that a role starts after although it cannot, and the first one that a group has in vain.
_AFTER_NOBODY: Final = (
    "self.cliques.map(c, has(c.spec.startsAfter) ? c.spec.startsAfter.filter(n, "
    f"n == c.name || !{_IS_A_CLIQUE}) : []).filter(l, size(l) > 0)[0][0]"
)
_NOBODY: Final = f"{_GROUPS}.map(g, g.cliqueNames.filter(n, !{_IS_A_CLIQUE})).filter(l, size(l) > 0)[0][0]"
_SHARED: Final = f"self.cliques.filter(c, {_GROUPS}.filter(g, c.name in g.cliqueNames).size() > 1)[0]"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `field` is where the error is shown, relative to where the rule stands."""

    rule: str
    message: str
    field: str = ""
    reason: str = ""
    #: The rule also runs on creation, with `oldSelf` an optional.
    optional_old: bool = False
    #: What goes on after the message, with a verb for each value that `values` computes.
    told: str = ""
    values: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        """The rule as it stands in x-kubernetes-validations."""
        entry: Manifest = {"rule": self.rule, "message": self.message}
        if self.told:
            sentence = f"{self.message}; {self.told}".replace("'", "\\'")
            entry["messageExpression"] = f"'{sentence}'.format([{', '.join(self.values)}])"
        if self.field:
            entry["fieldPath"] = self.field
        if self.reason:
            entry["reason"] = self.reason
        if self.optional_old:
            entry["optionalOldSelf"] = True
        return entry


def _only_later(rule: str, field: str) -> Rule:
    """packDomain on objects that have it already, never on new ones."""
    return Rule(
        f"oldSelf.hasValue() || {rule}", _PACK_DOMAIN, field=field, reason=_FORBIDDEN, optional_old=True
    )


def _kept(field: str, empty: str) -> Rule:
    """A field that cannot change; absent and empty are the same."""
    new, old = (f"(has({at}.{field}) ? {at}.{field} : {empty})" for at in ("self", "oldSelf"))
    return Rule(f"{new} == {old}", _IMMUTABLE, field=f".{field}", reason=_FORBIDDEN)


def _kept_once_set(field: str) -> Rule:
    """A field that may be added but neither changed nor removed."""
    return Rule(
        f"!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})",
        _IMMUTABLE,
        field=f".{field}",
        reason=_FORBIDDEN,
    )


def _kept_annotation(key: str) -> Rule:
    """An annotation that can be neither added nor changed nor removed."""
    new, old = (
        f"(has({at}.annotations) && '{key}' in {at}.annotations ? {at}.annotations['{key}'] : '')"
        for at in ("self", "oldSelf")
    )
    return Rule(f"{new} == {old}", f"annotation {key} is immutable", field=".annotations", reason=_FORBIDDEN)


_CLIQUESET: Final = (
    Rule(
        "oldSelf.hasValue() || self.metadata.name.matches('^[a-z][-a-z0-9]*$')",
        "metadata.name must start with a letter and contain only lower-case letters, digits and '-': "
        "it is part of the names of services and pods",
        optional_old=True,
    ),
    Rule(
        f"self.spec.template.cliques.all(c, size(self.metadata.name) + size(c.name) <= {_BUDGET})",
        f"the set's name and a clique's name may have {_BUDGET} characters together, so that pod names fit",
        field=".spec.template.cliques",
        told="with %s they are %d",
        values=(f"{_TOO_LONG}.name", f"size(self.metadata.name) + size({_TOO_LONG}.name)"),
    ),
    Rule(
        "!has(self.spec.template.podCliqueScalingGroups) || self.spec.template.podCliqueScalingGroups.all(g, "
        f"g.cliqueNames.all(c, size(self.metadata.name) + size(g.name) + size(c) <= {_BUDGET}))",
        f"the names of the set, of a scaling group and of a clique in it may have {_BUDGET} characters "
        "together, "
        "so that pod names fit",
        field=".spec.template.podCliqueScalingGroups",
    ),
    _only_later(
        "!has(self.spec.template.topologyConstraint) || "
        "!has(self.spec.template.topologyConstraint.packDomain)",
        ".spec.template.topologyConstraint.packDomain",
    ),
    _only_later(
        "!has(self.spec.template.cliques) || self.spec.template.cliques.all(c, "
        "!has(c.topologyConstraint) || !has(c.topologyConstraint.packDomain))",
        ".spec.template.cliques",
    ),
    _only_later(
        "!has(self.spec.template.podCliqueScalingGroups) || self.spec.template.podCliqueScalingGroups.all(g, "
        "!has(g.topologyConstraint) || !has(g.topologyConstraint.packDomain))",
        ".spec.template.podCliqueScalingGroups",
    ),
)

_TEMPLATE: Final = (
    _kept("cliqueStartupType", "'CliqueStartupTypeAnyOrder'"),
    _kept("resourceSharing", "[]"),
    _kept("resourceClaimTemplates", "[]"),
    Rule(
        "self.cliqueStartupType == 'CliqueStartupTypeAnyOrder' || "
        "self.cliques.map(c, c.name) == oldSelf.cliques.map(c, c.name)",
        "the order of cliques cannot change when they start in order",
        field=".cliques",
        reason=_FORBIDDEN,
    ),
    Rule(
        "self.cliqueStartupType != 'CliqueStartupTypeExplicit' || self.cliques.all(c, "
        "!has(c.spec.startsAfter) || "
        f"c.spec.startsAfter.all(n, n != c.name && {_IS_A_CLIQUE}))",
        "startsAfter may only name other cliques of the set",
        field=".cliques",
        told="got %s",
        values=(_AFTER_NOBODY,),
    ),
    Rule(
        f"!has({_GROUPS}) || {_GROUPS}.all(g, g.cliqueNames.all(n, {_IS_A_CLIQUE}))",
        "unidentified PodClique names found: cliqueNames may only name cliques of the set",
        field=".podCliqueScalingGroups",
        told="got %s",
        values=(_NOBODY,),
    ),
    Rule(
        f"!has({_GROUPS}) || self.cliques.all(c, {_GROUPS}.filter(g, c.name in g.cliqueNames).size() <= 1)",
        "a clique may belong to one scaling group at most",
        field=".podCliqueScalingGroups",
        told="%s belongs to several",
        values=(f"{_SHARED}.name",),
    ),
    Rule(
        f"!has({_GROUPS}) || self.cliques.all(c, !has(c.spec.autoScalingConfig) || "
        f"!{_GROUPS}.exists(g, c.name in g.cliqueNames))",
        "a clique of a scaling group cannot have an autoScalingConfig; use scaleConfig of the group",
        field=".cliques",
    ),
    Rule(
        f"(has({_GROUPS}) ? {_GROUPS}.size() : 0) == "
        "(has(oldSelf.podCliqueScalingGroups) ? oldSelf.podCliqueScalingGroups.size() : 0) && "
        f"(!has({_GROUPS}) || {_GROUPS}.all(g, oldSelf.podCliqueScalingGroups.exists(o, o.name == g.name)))",
        "not allowed to add or remove PodCliqueScalingGroupConfigs",
        field=".podCliqueScalingGroups",
        reason=_FORBIDDEN,
    ),
)

_PACK: Final = (
    Rule(
        "has(self.pack) || has(self.packDomain)",
        "topologyConstraint must specify pack or deprecated packDomain",
        field=".pack",
        reason=_REQUIRED,
    ),
    Rule(
        "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
        "must not set both pack.required and deprecated packDomain",
        field=".pack.required",
    ),
)


def _autoscaled(at: str, config: str, field: str) -> tuple[Rule, ...]:
    """The bounds of an autoscaler fit what it scales; what is left out is for the operator to check."""
    here = f"{at}.{config}"
    return (
        Rule(
            f"!has({here}) || !has({here}.minReplicas) || !has({at}.minAvailable) || "
            f"{here}.minReplicas >= {at}.minAvailable",
            "minReplicas must not be less than minAvailable",
            field=f"{field}.{config}.minReplicas",
            told="got %d with %d",
            values=(f"{here}.minReplicas", f"{at}.minAvailable"),
        ),
        Rule(
            f"!has({here}) || {here}.maxReplicas >= {at}.replicas",
            "maxReplicas must not be less than replicas",
            field=f"{field}.{config}.maxReplicas",
            told="got %d with %d",
            values=(f"{here}.maxReplicas", f"{at}.replicas"),
        ),
    )


def _minimum_and_replicas(at: str) -> tuple[str, ...]:
    counted = f"{at}.replicas == 1 ? 'replica' : 'replicas'"
    return f"{at}.minAvailable", f"{at}.replicas", counted


#: View, or view and field, to the rules that hold there.
RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "PodCliqueSet": _CLIQUESET,
    "PodCliqueSetTemplate": _TEMPLATE,
    "PodCliqueSetTemplate.cliques": (
        Rule("size(self) > 0", "at least one PodClique must be defined", reason=_REQUIRED),
        Rule(
            "size(self) == size(oldSelf) && self.all(c, oldSelf.exists(o, o.name == c.name))",
            "not allowed to change clique composition; delete the set and create it again",
            reason=_FORBIDDEN,
        ),
    ),
    "PodCliqueTemplate": (
        Rule(
            "!has(self.spec.minAvailable) || self.spec.replicas == 0 || "
            "self.spec.minAvailable <= self.spec.replicas",
            "minAvailable must not be greater than replicas",
            field=".spec.minAvailable",
            told="got %d with %d %s",
            values=_minimum_and_replicas("self.spec"),
        ),
        *_autoscaled("self.spec", "autoScalingConfig", ".spec"),
        _kept("spec.roleName", "''"),
        _kept("spec.startsAfter", "[]"),
        _kept("spec.podSpec.schedulerName", "''"),
        _kept("resourceSharing", "[]"),
        _kept_annotation(labels.MNNVL_GROUP),
    ),
    "ScalingGroupConfig": (
        Rule(
            "self.replicas == 0 || self.minAvailable <= self.replicas",
            "minAvailable must not be greater than replicas",
            field=".minAvailable",
            told="got %d with %d %s",
            values=_minimum_and_replicas("self"),
        ),
        *_autoscaled("self", "scaleConfig", ""),
        Rule("self.cliqueNames == oldSelf.cliqueNames", _IMMUTABLE, field=".cliqueNames", reason=_FORBIDDEN),
        _kept_once_set("minAvailable"),
        _kept("resourceSharing", "[]"),
        _kept_annotation(labels.MNNVL_GROUP),
    ),
    "ScalingGroupConfig.cliqueNames": (
        Rule("size(self) > 0", "a scaling group needs at least one clique", reason=_REQUIRED),
    ),
    "AutoScalingConfig": (
        Rule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "maxReplicas must not be less than minReplicas",
            field=".maxReplicas",
            told="got %d with %d",
            values=("self.maxReplicas", "self.minReplicas"),
        ),
    ),
    "TopologyConstraint": _PACK,
    "PackConstraint": (
        Rule(
            "has(self.required) || has(self.preferred)",
            "pack must specify at least one of required or preferred",
            reason=_REQUIRED,
        ),
    ),
}
