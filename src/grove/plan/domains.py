"""Which NVLink domain the pods of a role belong to, and the claim by which they join it. Pure.

Roles with the same group of `grove.io/mnnvl-group` share one ComputeDomain in each replica of a set. The
annotation stands on the set, on a scaling group or on a role; the narrowest one counts, and `none` opts out.
Only containers that ask for GPUs join: NVIDIA's driver makes the template of their claims from the domain.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from grove.api import labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate, ScalingGroupConfig
from grove.errors import FieldError
from grove.meta import Manifest

#: The value by which a set, a group or a role opts out.
NO_GROUP: Final = "none"
#: What pods call the claim by which they join their domain.
CLAIM: Final = "mnnvl-claim"

_GPU: Final = "nvidia.com/gpu"
_CONTAINERS: Final = ("containers", "initContainers")


def domain_groups(cliqueset: PodCliqueSet) -> list[str]:
    """The groups for which each replica of a set has a domain: those of roles that ask for GPUs."""
    found = (domain_group(cliqueset, role) for role in cliqueset.template.cliques)
    return list(dict.fromkeys(group for group in found if group))


def domain_group(cliqueset: PodCliqueSet, role: PodCliqueTemplate) -> str:
    """The group whose domain the pods of a role join; empty if they join none."""
    return chosen_group(cliqueset, role) if asks_for_gpus(role.spec.pod_spec) else ""


def chosen_group(cliqueset: PodCliqueSet, role: PodCliqueTemplate) -> str:
    """The group that is chosen for a role, whether or not it asks for GPUs; empty if none is."""
    found = (layer[labels.MNNVL_GROUP] for layer in _layers(cliqueset, role) if labels.MNNVL_GROUP in layer)
    group = next(found, NO_GROUP)
    return "" if group == NO_GROUP else group


def _layers(cliqueset: PodCliqueSet, role: PodCliqueTemplate) -> Iterator[Mapping[str, str]]:
    """The annotations that may choose the group of a role, the narrowest first."""
    yield role.annotations
    config = group_config(cliqueset, role.name)
    if config is not None:
        yield config.annotations
    yield cliqueset.annotations


def group_config(cliqueset: PodCliqueSet, role: str) -> ScalingGroupConfig | None:
    """The scaling group that a role belongs to, if any."""
    groups = cliqueset.template.pod_clique_scaling_groups
    return next((config for config in groups if role in config.clique_names), None)


def asks_for_gpus(spec: Manifest) -> bool:
    """Whether any container of a pod asks for NVIDIA's GPUs."""
    return any(_asks(container) for field in _CONTAINERS for container in spec.get(field) or ())


def _asks(container: Manifest) -> bool:
    resources = container.get("resources") or {}
    amounts = [(resources.get(field) or {}).get(_GPU) for field in ("limits", "requests")]
    # GPUs are counted in whole numbers, so that any other digit than 0 means some.
    return any(set(str(amount)) & set("123456789") for amount in amounts if amount is not None)


def with_domain(spec: Manifest, domain: str) -> Manifest:
    """The pod spec whose GPU containers join a domain; a claim of the same name is left as it is."""
    claims = list(spec.get("resourceClaims") or ())
    if all(claim.get("name") != CLAIM for claim in claims):
        claims.append({"name": CLAIM, "resourceClaimTemplateName": domain})
    joined = {
        field: [_joined(container) if _asks(container) else container for container in spec[field]]
        for field in _CONTAINERS
        if spec.get(field)
    }
    return {**spec, **joined, "resourceClaims": claims}


def _joined(container: Manifest) -> Manifest:
    resources = container.get("resources") or {}
    claims = list(resources.get("claims") or ())
    if any(claim.get("name") == CLAIM for claim in claims):
        return container
    return {**container, "resources": {**resources, "claims": [*claims, {"name": CLAIM}]}}


def moved_domains(cliqueset: PodCliqueSet, cliques: Iterable[PodClique]) -> list[FieldError]:
    """Roles whose group was changed since their cliques were made: pods cannot move between domains.

    The API server refuses this of scaling groups and roles; what a set's own annotations were it cannot see.
    """
    # All cliques of a role have the same group: one of each is enough.
    unseen = {role.name: role for role in cliqueset.template.cliques if asks_for_gpus(role.spec.pod_spec)}
    for clique in cliques:
        if not unseen:
            break
        role = unseen.pop(_role_of(cliqueset, clique), None)
        if role is not None and (error := _moved(cliqueset, role, clique)) is not None:
            return [error]
    return []


def _moved(cliqueset: PodCliqueSet, role: PodCliqueTemplate, clique: PodClique) -> FieldError | None:
    have, replica = _joined_domain(clique.spec.pod_spec), names.set_replica(cliqueset.name, clique.name)
    if have is None or replica is None or not asks_for_gpus(clique.spec.pod_spec):
        return None
    group = domain_group(cliqueset, role)
    if have == (names.compute_domain(cliqueset.name, replica, group) if group else ""):
        return None
    message = (
        f"cannot be changed: clique {clique.name} joined {have or 'no domain'}, and would belong to "
        f"{f'group {group!r}' if group else 'none'}; put it back, or delete the set and create it again"
    )
    return FieldError(f"metadata.annotations[{labels.MNNVL_GROUP}]", message)


def _role_of(cliqueset: PodCliqueSet, clique: PodClique) -> str:
    """The role of a clique, by its labels and its name."""
    group = clique.labels.get(labels.SCALING_GROUP)
    number = clique.labels.get(labels.SCALING_GROUP_REPLICA_INDEX)
    replica = clique.labels.get(labels.SET_REPLICA_INDEX)
    prefix = f"{group}-{number}-" if group else f"{cliqueset.name}-{replica}-"
    return clique.name.removeprefix(prefix) if clique.name.startswith(prefix) else ""


def _joined_domain(spec: Manifest) -> str | None:
    """The domain that a clique's pods join; empty for none, None if the author wrote the claim."""
    claim = next((each for each in spec.get("resourceClaims") or () if each.get("name") == CLAIM), None)
    return "" if claim is None else claim.get("resourceClaimTemplateName")
