"""A template's hash follows its meaning, not its spelling."""

import json
from pathlib import Path

import msgspec
import pytest

from grove.api.cliqueset import PodCliqueTemplate
from grove.meta import Manifest
from grove.plan.hashing import generation_hash, template_hash
from grove.testing import make

BASE: Manifest = {
    "containers": [{"name": "a", "image": "x:1", "args": ["one", "two"]}, {"name": "b", "image": "y:1"}],
    "nodeSelector": {"gpu": "h100", "zone": "a"},
}


def template(pod: Manifest, **fields: dict[str, str]) -> PodCliqueTemplate:
    cliqueset = make.cliqueset("s", [{**make.template("worker", pod=pod), **fields}])
    return cliqueset.template.cliques[0]


SAME: dict[str, Manifest] = {
    "map order": {
        "nodeSelector": {"zone": "a", "gpu": "h100"},
        "containers": [{"image": "x:1", "args": ["one", "two"], "name": "a"}, {"image": "y:1", "name": "b"}],
    },
    "values that a webhook fills in": {
        **BASE,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    },
    "a port's protocol": {
        **BASE,
        "containers": [
            {**BASE["containers"][0], "ports": [], "resources": {"limits": {}}},
            {**BASE["containers"][1], "env": None, "securityContext": {}},
        ],
    },
    "empty instead of absent": {**BASE, "tolerations": [], "affinity": {}, "hostname": ""},
}
OTHER: dict[str, Manifest] = {
    "the order of containers": {**BASE, "containers": list(reversed(BASE["containers"]))},
    "the order of arguments": {
        **BASE,
        "containers": [{"name": "a", "image": "x:1", "args": ["two", "one"]}, {"name": "b", "image": "y:1"}],
    },
    "an image": {**BASE, "containers": [{**BASE["containers"][0], "image": "x:2"}, BASE["containers"][1]]},
    "a field that this release does not know": {**BASE, "fieldOfTomorrow": 1},
    "another restart policy": {**BASE, "restartPolicy": "Never"},
}


INIT = {"name": "i", "image": "z:1"}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}


def packed(**term: object) -> Manifest:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    return {**BASE, "affinity": {"podAffinity": {rule: [{**TERM, **term}]}}}


def one(**container: object) -> Manifest:
    return {"containers": [{"name": "a", "image": "x:1", **container}]}


#: Templates of different meaning that a careless hash takes for one.
DISTINCT: dict[str, tuple[Manifest, Manifest]] = {
    "an init container and a sidecar": (
        {**BASE, "initContainers": [INIT]},
        {**BASE, "initContainers": [{**INIT, "restartPolicy": "Always"}]},
    ),
    "a container and an init container": (
        {"containers": [BASE["containers"][0], INIT]},
        {"containers": [BASE["containers"][0]], "initContainers": [INIT]},
    ),
    "all namespaces and the pod's own": (packed(namespaceSelector={}), packed()),
    "a node label without a value and none": (
        {**BASE, "nodeSelector": {"gpu": ""}},
        {**BASE, "nodeSelector": {}},
    ),
    "a pod's own priority class and none": ({**BASE, "priorityClassName": "high"}, BASE),
    "a volume in memory and one on disk": (
        {**BASE, "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
        {**BASE, "volumes": [{"name": "v", "emptyDir": {}}]},
    ),
    "a protocol of a probe's header": (
        one(livenessProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "protocol", "value": "TCP"}]}}),
        one(livenessProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "protocol"}]}}),
    ),
}


@pytest.mark.parametrize(("one", "other"), DISTINCT.values(), ids=DISTINCT)
def test_the_hash_tells_apart(one: Manifest, other: Manifest) -> None:
    assert template_hash(template(one)) != template_hash(template(other))


def test_annotations_that_are_called_like_fields_have_no_defaults() -> None:
    marks: dict[str, dict[str, str]] = {
        "none": {},
        "protocol": {"protocol": "TCP"},
        "restart": {"restartPolicy": "Always"},
        "blank": {"marker": ""},
    }
    hashes = {template_hash(template(BASE, annotations=each)) for each in marks.values()}
    assert len(hashes) == len(marks)


def volume(**source: object) -> Manifest:
    return {**BASE, "volumes": [{"name": "v", **source}]}


def claim(**spec: object) -> Manifest:
    return volume(ephemeral={"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], **spec}}})


def amounts(**limits: object) -> Manifest:
    return one(resources={"limits": limits})


def divisor(**field: object) -> Manifest:
    return one(env=[{"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", **field}}}])


def told(**field: object) -> Manifest:
    return {"items": [{"path": "p", "resourceFieldRef": {"resource": "limits.cpu", **field}}]}


#: Spellings of one meaning, the usual one first: its hash is that of all releases.
SPELLINGS: dict[str, list[Manifest]] = {
    "a number of devices": [amounts(gpu="1"), amounts(gpu=1), amounts(gpu="1000m"), amounts(gpu=1.0)],
    "cores": [amounts(cpu="1500m"), amounts(cpu=1.5), amounts(cpu="1.5")],
    "memory": [amounts(memory="1Gi"), amounts(memory="1024Mi"), amounts(memory=2**30)],
    "decimal memory": [amounts(memory="500G"), amounts(memory="500e9"), amounts(memory=500 * 10**9)],
    "none of it": [amounts(gpu="0"), amounts(gpu=0)],
    "of an init container": [
        {**BASE, "initContainers": [{**INIT, "resources": {"requests": {"cpu": each}}}]} for each in ("1", 1)
    ],
    "of the pod": [{**BASE, "resources": {"requests": {"cpu": each}}} for each in ("2", 2)],
    "overhead": [{**BASE, "overhead": {"cpu": each}} for each in ("250m", 0.25)],
    "the size of a volume": [volume(emptyDir={"sizeLimit": each}) for each in ("1Gi", "1024Mi")],
    "storage": [claim(resources={"requests": {"storage": each}}) for each in ("1Gi", "1024Mi")],
    "divisors": [divisor(divisor="1m"), divisor(divisor="0.001")],
    "no divisor": [divisor(), divisor(divisor="0"), divisor(divisor=0)],
    "a divisor in a volume": [volume(downwardAPI=told(**each)) for each in ({}, {"divisor": "0"})],
    "a divisor in a projected volume": [
        volume(projected={"sources": [{"downwardAPI": told(**each)}]}) for each in ({}, {"divisor": "0"})
    ],
    "namespaces of the host": [BASE, {**BASE, "hostNetwork": False, "hostPID": False, "hostIPC": False}],
    "a terminal": [one(), one(stdin=False, stdinOnce=False, tty=False)],
    "a mount": [
        one(volumeMounts=[{"name": "v", "mountPath": "/v", **each}]) for each in ({}, {"readOnly": False})
    ],
    "a claim": [
        volume(persistentVolumeClaim={"claimName": "c", **each}) for each in ({}, {"readOnly": False})
    ],
    "a port": [one(ports=[{"containerPort": 1, **each}]) for each in ({}, {"hostPort": 0})],
    "a probe": [
        one(livenessProbe={"httpGet": {"port": 1}, **each})
        for each in ({}, {"initialDelaySeconds": 0, "periodSeconds": 0})
    ],
    "a claim's metadata": [
        claim(),
        volume(
            ephemeral={
                "volumeClaimTemplate": {
                    "metadata": {"creationTimestamp": None},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}},
                }
            }
        ),
    ],
    "a selector": [packed(labelSelector={}), packed(labelSelector={"matchLabels": {}})],
}


@pytest.mark.parametrize("spellings", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings_of_one_meaning_have_one_hash(spellings: list[Manifest]) -> None:
    assert len({template_hash(template(each)) for each in spellings}) == 1


#: What Go's types keep: false or empty is said in a pointer, and is not the same as nothing.
SAID: dict[str, tuple[Manifest, Manifest]] = {
    "no token": ({**BASE, "automountServiceAccountToken": False}, BASE),
    "no service links": ({**BASE, "enableServiceLinks": False}, BASE),
    "namespaces of its own": ({**BASE, "shareProcessNamespace": False}, BASE),
    "no grace": ({**BASE, "terminationGracePeriodSeconds": 0}, BASE),
    "root or not": (one(securityContext={"runAsNonRoot": False}), one()),
    "no more privileges": (one(securityContext={"allowPrivilegeEscalation": False}), one()),
    "user 0": (one(securityContext={"runAsUser": 0}), one()),
    "no storage class": (claim(storageClassName=""), claim()),
    "none of a resource": (amounts(gpu="0"), one()),
    "an optional variable": (
        one(envFrom=[{"configMapRef": {"name": "c", "optional": False}}]),
        one(envFrom=[{"configMapRef": {"name": "c"}}]),
    ),
    "a tolerance of no seconds": (
        {**BASE, "tolerations": [{"key": "a", "tolerationSeconds": 0}]},
        {**BASE, "tolerations": [{"key": "a"}]},
    ),
    "a text that is no quantity": (amounts(gpu="many"), amounts(gpu="more")),
    "text and false": ({**BASE, "hostNetwork": "false"}, BASE),
    "another amount": (amounts(cpu="1"), amounts(cpu="1001m")),
    "a label that looks like an amount": (
        {**BASE, "nodeSelector": {"cpu": "1"}},
        {**BASE, "nodeSelector": {"cpu": "1000m"}},
    ),
}


@pytest.mark.parametrize(("one", "other"), SAID.values(), ids=SAID)
def test_the_hash_tells_what_go_tells(one: Manifest, other: Manifest) -> None:
    assert template_hash(template(one)) != template_hash(template(other))


@pytest.mark.parametrize("pod", SAME.values(), ids=SAME)
def test_the_hash_is_unaffected_by(pod: Manifest) -> None:
    assert template_hash(template(pod)) == template_hash(template(BASE))


@pytest.mark.parametrize("pod", OTHER.values(), ids=OTHER)
def test_the_hash_changes_with(pod: Manifest) -> None:
    assert template_hash(template(pod)) != template_hash(template(BASE))


def test_labels_annotations_and_priority_belong_to_the_identity() -> None:
    hashes = {
        template_hash(template(BASE)),
        template_hash(template(BASE, labels={"a": "b"})),
        template_hash(template(BASE, annotations={"a": "b"})),
        template_hash(template(BASE), priority_class="high"),
    }
    assert len(hashes) == 4


RECORDED: list[Manifest] = json.loads((Path(__file__).parent / "hashes.json").read_text())


@pytest.mark.parametrize("entry", RECORDED, ids=[each["what"] for each in RECORDED])
def test_the_hash_is_the_same_in_every_release(entry: Manifest) -> None:
    """Entries may be added, but never change: another hash makes every running pod count as outdated."""
    found = msgspec.convert(entry["template"], PodCliqueTemplate)
    assert template_hash(found, priority_class=entry.get("priorityClass", "")) == entry["hash"]


def test_reordering_cliques_does_not_change_the_set() -> None:
    one = make.cliqueset("s", {"a": 1, "b": 1}).template.cliques
    other = make.cliqueset("s", {"b": 1, "a": 1}).template.cliques
    assert generation_hash(one) == generation_hash(other)
