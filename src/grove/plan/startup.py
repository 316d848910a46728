"""In which order the cliques of a gang start, and the init container that makes their pods wait. Pure.

A clique starts when its parents have as many ready pods as the gang needs of them. Order holds within one
gang: a replica of a scaling group that is a gang of its own waits for cliques of the same replica alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from grove.api import labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import EXPLICIT, IN_ORDER, PodCliqueSetTemplate, PodCliqueTemplate
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import is_adopted
from grove.meta import Manifest
from grove.plan.layout import Layout, PlannedClique

CONTAINER: Final = "grove-initc"
POD_INFO_VOLUME: Final = "pod-info-vol"
TOKEN_VOLUME: Final = "sa-token-vol"

_ARGUMENT: Final = "--podcliques="
_POD_INFO: Final = "/var/grove/pod-info"
#: Where every client of Kubernetes looks for its token. The API server mounts a pod's own token there in
#: containers that have nothing at that path yet, so that this one is left alone.
_CREDENTIALS: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
#: The kubelet renews the token when four fifths of this have passed.
_TOKEN_SECONDS: Final = 3600
#: By what a kubelet judges the quality of service of a pod.
_JUDGED: Final = ("cpu", "memory")


# Who waits for whom -------------------------------------------------------------------------------


def parent_roles(template: PodCliqueSetTemplate, role: str) -> tuple[str, ...]:
    """The roles that one role starts after: the one before it in the list, or those that it names."""
    if template.clique_startup_type == IN_ORDER:
        listed = [each.name for each in template.cliques]
        position = listed.index(role) if role in listed else 0
        return (listed[position - 1],) if position else ()
    if template.clique_startup_type == EXPLICIT:
        named = next((each.spec.starts_after for each in template.cliques if each.name == role), ())
        return tuple(dict.fromkeys(named))
    return ()


def waiting_roles(template: PodCliqueSetTemplate) -> tuple[PodCliqueTemplate, ...]:
    """The roles whose pods wait for others."""
    return tuple(role for role in template.cliques if parent_roles(template, role.name))


def parent_cliques(layout: Layout, replica: int, clique: PlannedClique) -> tuple[str, ...]:
    """The cliques of its gang that a clique starts after, by name."""
    roles = parent_roles(layout.template, clique.role.name)
    group = clique.group
    if group is not None and group.scaled:
        own = [role for role in roles if role in group.config.clique_names]
        return tuple(names.group_clique(group.group, group.number, role) for role in own)
    return tuple(name for role in roles for name in _in_base_gang(layout, replica, role))


def _in_base_gang(layout: Layout, replica: int, role: str) -> Iterator[str]:
    """The cliques of a role in the base gang: one, or of a scaling group those up to its minimum."""
    for group, config in layout.groups(replica):
        if role in config.clique_names:
            yield from (names.group_clique(group, number, role) for number in range(config.minimum))
            return
    yield names.clique(layout.cliqueset, replica, role)


# The init container -------------------------------------------------------------------------------


class Wait(NamedTuple):
    """What the pods of a clique wait for, and the image that does it."""

    #: How many ready pods each clique must have, by its name.
    parents: Mapping[str, int]
    image: str


def wait_of(clique: PodClique, gang: PodGang, image: str) -> Wait | None:
    """What the pods of a clique wait for, if anything; a parent that is scaled to zero is not waited for."""
    minima = {group.name: group.min_replicas for group in gang.spec.podgroups}
    parents = {name: minima[name] for name in clique.spec.starts_after if minima.get(name)}
    return Wait(parents, image) if parents else None


def waiting_in_vain(gang: PodGang, pods: Iterable[Pod]) -> set[str]:
    """The pods that have yet to start and wait for a clique that was scaled to zero since they were made."""
    asleep = {group.name for group in gang.spec.podgroups if not group.min_replicas}
    return {
        pod.name
        for pod in pods
        if asleep and pod.active and pod.status.phase == "Pending" and not asleep.isdisjoint(_waits_for(pod))
    }


def _waits_for(pod: Pod) -> Iterator[str]:
    """The cliques that the waiting container of a pod was made to wait for."""
    for container in pod.spec.init_containers:
        if container.name == CONTAINER:
            for argument in container.args:
                yield argument.removeprefix(_ARGUMENT).partition(":")[0]


def with_wait(spec: Manifest, wait: Wait) -> Manifest:
    """A pod spec with the waiting container after all other init containers.

    They keep their order, and what they do (downloads, most of all) goes on while the parents start.
    """
    return {
        **spec,
        "initContainers": [*(spec.get("initContainers") or ()), _container(spec, wait)],
        "volumes": [*(spec.get("volumes") or ()), _pod_info(), _token()],
    }


def _container(spec: Manifest, wait: Wait) -> Manifest:
    container: Manifest = {
        "name": CONTAINER,
        "image": wait.image,
        "args": [f"{_ARGUMENT}{name}:{count}" for name, count in wait.parents.items()],
        "volumeMounts": [
            {"name": POD_INFO_VOLUME, "mountPath": _POD_INFO, "readOnly": True},
            {"name": TOKEN_VOLUME, "mountPath": _CREDENTIALS, "readOnly": True},
        ],
        "securityContext": _security(spec),
    }
    if resources := _guaranteed(spec):
        container["resources"] = resources
    return container


def _security(spec: Manifest) -> Manifest:
    """What a namespace that enforces the standard `restricted` asks of every container.

    The user is left to the pod and the image: where all containers have the same one, a kubelet makes the
    token readable by that user alone.
    """
    security: Manifest = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if (spec.get("securityContext") or {}).get("runAsUser") != 0:
        security["runAsNonRoot"] = True
    return security


def _guaranteed(spec: Manifest) -> Manifest | None:
    """What the waiting container asks for in a pod of the class Guaranteed: without, it would end that class.

    It is what the first container asks for: containers run after it, so that the pod needs no more.
    """
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if not containers or not all(_is_exact(each.get("resources") or {}) for each in containers):
        return None
    limits = containers[0]["resources"]["limits"]
    same = {name: limits[name] for name in _JUDGED}
    return {"limits": same, "requests": dict(same)}


def _is_exact(resources: Manifest) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(name in limits and requests.get(name, limits[name]) == limits[name] for name in _JUDGED)


def _pod_info() -> Manifest:
    return {
        "name": POD_INFO_VOLUME,
        "downwardAPI": {
            "items": [
                _fact("namespace", "metadata.namespace"),
                _fact("podgangname", f"metadata.labels['{labels.POD_GANG}']"),
            ]
        },
    }


def _token() -> Manifest:
    """A token of the pod's own service account, whichever that is, that expires; with what belongs to it."""
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "name": TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
                {"configMap": authority},
                {"downwardAPI": {"items": [_fact("namespace", "metadata.namespace")]}},
            ]
        },
    }


def _fact(path: str, field: str) -> Manifest:
    return {"path": path, "fieldRef": {"fieldPath": field}}


def uses_account_of_set(pod: Pod) -> bool:
    """Whether a pod waits, or once waited, as the service account that the Go operator made for its set.

    Its init container runs again when the pod's sandbox is lost, however long ago it ended.
    """
    return is_adopted(pod) and any(each.name == CONTAINER for each in pod.spec.init_containers)


# Permission and image -----------------------------------------------------------------------------


def service_accounts(roles: Iterable[PodCliqueTemplate]) -> list[str]:
    """The service accounts of the pods of some roles, each once."""
    return sorted({_account(role.spec.pod_spec) for role in roles})


def _account(spec: Manifest) -> str:
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")


def image_with_tag(image: str, version: str) -> str:
    """The image as it is pulled: with our version as its tag, unless it has a tag or a digest of its own."""
    name = image.strip() or CONTAINER
    tagged = "@" in name or ":" in name.rpartition("/")[2]
    return name if tagged else f"{name}:{version}"
