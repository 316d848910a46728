"""What holds for every gang: determinism, legal names, and links that lead somewhere."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.gang import PodGang
from grove.backends.base import Backend, Context, Verdict
from grove.backends.default import DefaultBackend
from grove.backends.kai.backend import POD_GROUP_ANNOTATION, SUBGROUP_LABEL, KaiBackend
from grove.errors import Unsupported
from grove.meta import Manifest
from grove.testing import make

KEYS = ("", "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")

BACKENDS: list[tuple[Backend, Context]] = [
    *((DefaultBackend(), on(cluster)) for cluster in clusters.NATIVE.values()),
    *(
        (DefaultBackend(), on(cluster, mode="Flat"))
        for cluster in (clusters.V135, clusters.V136, clusters.V137)
    ),
    *((DefaultBackend(), on(cluster, mode="Merged")) for cluster in (clusters.V136, clusters.V137)),
    *((KaiBackend(), on(cluster)) for cluster in (clusters.KAI_012, clusters.KAI_017)),
]

dns_labels = st.from_regex(r"[a-z][a-z0-9-]{0,61}[a-z0-9]", fullmatch=True)
keys = st.sampled_from(KEYS)


@st.composite
def gangs(draw: st.DrawFn) -> PodGang:
    """Gangs of up to twelve podgroups, some of them in groups, with constraints anywhere."""
    names = draw(st.lists(dns_labels, min_size=1, max_size=12, unique=True))
    # Most clusters refuse most required constraints: half of the gangs have none.
    musts = keys if draw(st.booleans()) else st.just("")
    podgroups = [
        make.podgroup(name, draw(st.integers(0, 5)), required=draw(musts), preferred=draw(keys))
        for name in names
    ]
    groups = []
    free = list(names)
    for group in draw(st.lists(dns_labels.filter(lambda name: name not in names), max_size=3, unique=True)):
        members = free[: draw(st.integers(0, len(free)))]
        free = free[len(members) :]
        groups.append(make.group(group, members, required=draw(musts)))
    gang = draw(dns_labels)
    return make.gang(
        gang,
        podgroups,
        groups=groups,
        required=draw(musts),
        preferred=draw(keys),
        priority=draw(st.sampled_from(["", "high"])),
        annotations={"grove.io/topology-name": "cluster"},
        cliqueset=draw(st.sampled_from(["", "train"])),
    )


@pytest.mark.parametrize("number", range(len(BACKENDS)))
@settings(max_examples=40, deadline=None)
@given(gang=gangs())
def test_every_accepted_gang_is_said_in_legal_objects_that_its_pods_point_to(
    number: int, gang: PodGang
) -> None:
    backend, context = BACKENDS[number]
    try:
        translation = backend.translate(gang, context)
    except Unsupported:
        return
    assert backend.translate(gang, context) == translation
    made = {
        each["metadata"]["name"]: each
        for each in translation.manifests
        if each["kind"] != "CompositePodGroup"
    }
    for manifest in translation.manifests:
        name = manifest["metadata"]["name"]
        assert len(name) <= 253
        assert SUBDOMAIN.fullmatch(name)
        assert _subordinate_names_are_labels(manifest)
    for podgroup in gang.spec.podgroups:
        for index in range(podgroup.min_replicas + 2):
            pod = backend.prepare_pod(make.pod_manifest(podgroup.name, index, gang=gang), gang, context)
            assert backend.prepare_pod(pod, gang, context) == pod
            assert _leads_somewhere(pod, made)
            needed = index < podgroup.min_replicas and bool(translation.manifests)
            assert not needed or _is_linked(pod)


@pytest.mark.parametrize("number", range(len(BACKENDS)))
@settings(max_examples=20, deadline=None)
@given(gang=gangs(), data=st.data())
def test_a_gang_is_scheduled_exactly_when_every_minimum_is_bound_and_it_is_not_scaled_to_none(
    number: int, gang: PodGang, data: st.DataObject
) -> None:
    backend, context = BACKENDS[number]
    bound = {each.name: data.draw(st.integers(0, each.min_replicas + 1)) for each in gang.spec.podgroups}
    pods = [
        make.pod(name, index, gang=gang, node="n") for name, count in bound.items() for index in range(count)
    ]
    there_is_something = gang.minimum > 0 or bool(pods)
    want = there_is_something and all(bound[each.name] >= each.min_replicas for each in gang.spec.podgroups)
    assert (backend.read(gang, (), pods, context).verdict is Verdict.SCHEDULED) == want


def _subordinate_names_are_labels(manifest: Manifest) -> bool:
    """Whether the names of subGroups, podGroups and templates within an object are unique DNS labels."""
    spec = manifest["spec"]
    listed = [each["name"] for each in (*spec.get("subGroups", ()), *spec.get("podGroups", ()))]
    templates = list(spec.get("compositePodGroupTemplates", ()))
    while templates:
        template = templates.pop()
        listed.append(template["name"])
        for key in ("compositePodGroupTemplates", "podGroupTemplates"):
            children = template.get(key, ())
            if len(children) > 8:
                return False
            templates += children
    return len(set(listed)) == len(listed) and all(
        LABEL.fullmatch(name) and len(name) <= 63 for name in listed
    )


def _is_linked(pod: Manifest) -> bool:
    annotations = pod["metadata"].get("annotations", {})
    return (
        bool(pod["spec"].keys() & {"workloadRef", "schedulingGroup"}) or POD_GROUP_ANNOTATION in annotations
    )


def _leads_somewhere(pod: Manifest, made: dict[str, Manifest]) -> bool:
    """Whether each thing that the pod points to is among the objects, inner names included."""
    spec, metadata = pod["spec"], pod["metadata"]
    if "schedulingGroup" in spec:
        return bool(made[spec["schedulingGroup"]["podGroupName"]]["kind"] == "PodGroup")
    if "workloadRef" in spec:
        workload = made[spec["workloadRef"]["name"]]
        return spec["workloadRef"]["podGroup"] in {each["name"] for each in workload["spec"]["podGroups"]}
    if POD_GROUP_ANNOTATION in metadata.get("annotations", {}):
        subgroups = made[metadata["annotations"][POD_GROUP_ANNOTATION]]["spec"].get("subGroups")
        wanted = metadata["labels"].get(SUBGROUP_LABEL)
        leaves = {each["name"] for each in subgroups or () if "minMember" in each}
        return wanted in leaves if subgroups else wanted is None
    return True
