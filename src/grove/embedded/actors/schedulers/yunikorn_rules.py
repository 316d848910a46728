"""What YuniKorn (1.8) reads on pods and in its configuration, and the pods that it makes. Pure.

The first pod without gates defines its application. Whatever is wrong with the task groups makes it an
ordinary application; whatever is wrong with its queue gets it rejected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from grove.embedded.actors.objects import annotations_of, labels_of, uid_of
from grove.embedded.actors.schedulers.shapes import amount
from grove.embedded.errors import Manifest

NAME = "yunikorn"
DOMAIN = "yunikorn.apache.org/"
PLACEHOLDER = "internal.yunikorn.apache.org/placeholder"
TASK_GROUP, TASK_GROUPS = DOMAIN + "task-group-name", DOMAIN + "task-groups"
POLICY = DOMAIN + "schedulingPolicyParameters"

#: Without `queues.yaml` every application goes to a queue named after its namespace.
DEFAULT_RULES = [{"name": "tag", "value": "namespace", "create": True}]
DEFAULT_TIMEOUT = 900
WAITING = "request is waiting for cluster resources become available"
TIMED_OUT = "ResourceReservationTimeout"
TIMED_OUT_WORDS = "Scheduling has timed out due to insufficient resources"
REJECTED = "ApplicationRejected"

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class BadTaskGroups(Exception):
    """The annotation is no valid list of task groups; the message is YuniKorn's."""


@dataclass(frozen=True, slots=True)
class TaskGroup:
    name: str
    minimum: int
    definition: Manifest
    """The group as it was written: resources, labels, where its pods may go."""

    @property
    def total(self) -> dict[str, int]:
        """What all its placeholders ask for together."""
        asked = self.definition["minResource"]
        return {name: self.minimum * amount(name, str(value)) for name, value in asked.items()}


@dataclass(frozen=True, slots=True)
class Policy:
    seconds: int = DEFAULT_TIMEOUT
    hard: bool = False


def application_of(pod: Manifest) -> str:
    """The application of a pod; one that names none shares one with its namespace."""
    labels, annotations = labels_of(pod), annotations_of(pod)
    return (
        labels.get(DOMAIN + "app-id")
        or annotations.get(DOMAIN + "app-id")
        or labels.get("applicationId")
        or labels.get("spark-app-selector")
        or f"yunikorn-{pod['metadata'].get('namespace')}-autogen"
    )


def queue_of(pod: Manifest) -> str:
    labels, annotations = labels_of(pod), annotations_of(pod)
    return (
        labels.get(DOMAIN + "queue") or annotations.get(DOMAIN + "queue") or labels.get("queue") or ""
    ).lower()


def is_placeholder(pod: Manifest) -> bool:
    return annotations_of(pod).get(PLACEHOLDER) == "true"


def task_groups(pod: Manifest) -> tuple[TaskGroup, ...]:
    """The groups that a pod defines; one that is wrong makes all of them wrong."""
    text = annotations_of(pod).get(TASK_GROUPS) or ""
    if not text:
        return ()
    try:
        listed = json.loads(text)
        groups = tuple(
            TaskGroup(each.get("name") or "", int(each.get("minMember") or 0), each) for each in listed
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise BadTaskGroups(str(error)) from None
    for group in groups:
        if not group.name:
            raise BadTaskGroups(f"can't get taskGroup Name from pod annotation, {text}")
        if group.definition.get("minResource") is None:
            raise BadTaskGroups(f"can't get taskGroup MinResource from pod annotation, {text}")
        if group.minimum == 0:
            raise BadTaskGroups(f"can't get taskGroup MinMember from pod annotation, {text}")
        if group.minimum < 0:
            raise BadTaskGroups(f"minMember cannot be negative, {text}")
    return groups


def policy_of(pod: Manifest) -> Policy:
    """How long to reserve, and what happens then; a parameter that cannot be read is skipped."""
    found = dict(
        part.split("=", 1)
        for part in (annotations_of(pod).get(POLICY) or "").split(" ")
        if part.count("=") == 1
    )
    seconds = found.get("placeholderTimeoutInSeconds", "")
    return Policy(
        int(seconds) if seconds.isdigit() and int(seconds) else DEFAULT_TIMEOUT,
        found.get("gangSchedulingStyle") == "Hard",
    )


def placeholder(
    application: str, group: TaskGroup, index: int, *, originator: Manifest, queue: str
) -> Manifest:
    """A pod that holds a place: owned by the pod that started the application, and gone with it."""
    meta, given = originator["metadata"], group.definition
    requests = {name: str(value) for name, value in given["minResource"].items() if name}
    spec: Manifest = {
        "securityContext": {"runAsUser": 1000, "runAsGroup": 3000},
        "containers": [
            {
                "name": "pause",
                "image": "pause:3.7",
                "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": requests, "limits": requests},
            }
        ],
        "restartPolicy": "Never",
        "schedulerName": NAME,
        "terminationGracePeriodSeconds": 0,
    }
    for part in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
        if given.get(part):
            spec[part] = given[part]
    if originator["spec"].get("priorityClassName"):
        spec["priorityClassName"] = originator["spec"]["priorityClassName"]
    marks = {key: annotations_of(originator).get(key) for key in (TASK_GROUPS, POLICY)}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": uid_of(originator)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"tg-{application[:28]}-{group.name[:20]}-{_nonce(application, group.name, str(index))}",
            "namespace": meta["namespace"],
            "labels": {
                **(given.get("labels") or {}),
                DOMAIN + "app-id": application,
                DOMAIN + "queue": queue,
            },
            "annotations": {
                **(given.get("annotations") or {}),
                PLACEHOLDER: "true",
                TASK_GROUP: group.name,
                **{key: value for key, value in marks.items() if value},
            },
            "ownerReferences": [{**owner, "controller": False, "blockOwnerDeletion": True}],
        },
        "spec": spec,
    }


def _nonce(*parts: str) -> str:
    """Ten characters; the real ones are random, these are the same in every run."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:16])
    letters = []
    for _ in range(10):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


# Queues -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Queues:
    """The default partition of `queues.yaml`."""

    rules: tuple[Mapping[str, Any], ...] = tuple(DEFAULT_RULES)
    configured: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"root": {"queues": [{}]}})

    @classmethod
    def read(cls, text: str) -> Queues:
        """Raises yaml.YAMLError; the real one keeps its last good configuration then."""
        document = yaml.safe_load(text) if text else None
        if not isinstance(document, dict):
            return cls()
        partition: Mapping[str, Any] = next(iter(document.get("partitions") or ()), {})
        found: dict[str, Mapping[str, Any]] = {}
        _collect(partition.get("queues") or (), "", found)
        rules = tuple(partition.get("placementrules") or ({"name": "provided", "create": False},))
        return cls(rules, found or {"root": {"queues": [{}]}})

    def place(self, application: str, asked: str, namespace: str) -> str:
        """The queue that the rules choose; raises Rejected when none does."""
        for rule in self.rules:
            name = self._wanted(rule, asked, namespace)
            path = name if name.startswith("root.") else f"root.{name.replace('.', '_dot_')}"
            if name and (path in self.configured or rule.get("create")) and self._leaf(path):
                return path
        if "root.default" in self.configured:
            return "root.default"
        raise Rejected(
            f"failed to place application {application}: application rejected: no placement rule matched"
        )

    def _wanted(self, rule: Mapping[str, Any], asked: str, namespace: str) -> str:
        match rule.get("name"):
            case "provided":
                return asked
            case "tag":
                return namespace if rule.get("value") == "namespace" else ""
            case "fixed":
                return str(rule.get("value") or "")
        return ""

    def _leaf(self, path: str) -> bool:
        return not self.configured.get(path, {}).get("queues")

    def refuse_gang(self, application: str, path: str, groups: Iterable[TaskGroup]) -> None:
        """Raises Rejected when a gang cannot ever run in a queue."""
        sorting = (self.configured.get(path, {}).get("properties") or {}).get(
            "application.sort.policy", "fifo"
        )
        if sorting != "fifo":
            raise Rejected(
                f"queue {path} cannot run application {application} with task group request: "
                "unsupported sort type"
            )
        total: dict[str, int] = {}
        for group in groups:
            for name, value in group.total.items():
                total[name] = total.get(name, 0) + value
        for most in self.limits(path).values():
            if any(value > most[name] for name, value in total.items() if name in most):
                raise Rejected(
                    f"queue {path} cannot fit application {application}: task group request {shown(total)} "
                    f"larger than max queue allocation {shown(most)}"
                )

    def limits(self, path: str) -> dict[str, dict[str, int]]:
        """The most that a queue and those above it may hold, by their paths, where that is limited."""
        found: dict[str, dict[str, int]] = {}
        steps = path.split(".")
        for depth in range(1, len(steps) + 1):
            above = ".".join(steps[:depth])
            most = (self.configured.get(above, {}).get("resources") or {}).get("max") or {}
            if most:
                found[above] = {_native(key): amount(_native(key), str(value)) for key, value in most.items()}
        return found


class Rejected(Exception):
    """The core does not take the application; the message is its own."""


def _collect(queues: Iterable[Mapping[str, Any]], above: str, found: dict[str, Mapping[str, Any]]) -> None:
    for queue in queues:
        path = f"{above}{queue.get('name') or ''}".lower()
        found[path] = queue
        _collect(queue.get("queues") or (), f"{path}.", found)


def _native(name: str) -> str:
    return "cpu" if name == "vcore" else name


def shown(amounts: Mapping[str, int]) -> str:
    """Amounts as YuniKorn prints them: cores in thousandths, under its own name."""
    renamed = {"vcore" if name == "cpu" else name: value for name, value in amounts.items()}
    return f"map[{' '.join(f'{name}:{value}' for name, value in sorted(renamed.items()))}]"
