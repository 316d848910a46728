"""Placement as tables: what fits where, in which words it does not, and that a failed trial leaves no trace."""

import time
from dataclasses import dataclass, field

import pytest
from tests.embedded.actors.cluster_objects import GPU, node, pod

from grove.embedded.actors.schedulers.gangs import Branch, Candidate, Leaf, attempt
from grove.embedded.actors.schedulers.placement import Ledger, Trial, domains
from grove.embedded.actors.schedulers.shapes import amount, node_facts, pod_shape, requests_of
from grove.embedded.errors import Manifest

QUANTITIES = {
    ("cpu", "2"): 2000,
    ("cpu", "250m"): 250,
    ("cpu", "0.5"): 500,
    ("memory", "1Gi"): 2**30,
    ("memory", "1G"): 10**9,
    ("memory", "1.5Ki"): 1536,
    ("memory", "1e3"): 1000,
    (GPU, "8"): 8,
}


@pytest.mark.parametrize(("quantity", "want"), QUANTITIES.items(), ids=str)
def test_quantities_are_read_exactly(quantity: tuple[str, str], want: int) -> None:
    assert amount(*quantity) == want


def test_nonsense_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="not a quantity of cpu"):
        amount("cpu", "many")


def box(cpu: str, **more: object) -> Manifest:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


REQUESTS = {
    "containers add up": ({"containers": [box("1"), box("2")]}, 3000),
    "the largest init container counts": ({"containers": [box("1")], "initContainers": [box("4")]}, 4000),
    "a sidecar runs along": (
        {"containers": [box("1")], "initContainers": [box("2", restartPolicy="Always")]},
        3000,
    ),
    "an init container runs with earlier sidecars": (
        {"containers": [box("1")], "initContainers": [box("2", restartPolicy="Always"), box("3")]},
        5000,
    ),
    "overhead is added": ({"containers": [box("1")], "overhead": {"cpu": "500m"}}, 1500),
}


@pytest.mark.parametrize(("spec", "want"), REQUESTS.values(), ids=REQUESTS)
def test_requests_of_a_pod(spec: Manifest, want: int) -> None:
    assert dict(requests_of(spec)) == {"cpu": want, "pods": 1}


@dataclass
class Case:
    nodes: list[Manifest]
    pod: Manifest
    want: str
    """The node, or the sentence."""
    labels: dict[str, str] = field(default_factory=dict)


def tainted(name: str, effect: str = "NoSchedule") -> Manifest:
    body = node(name)
    body["spec"]["taints"] = [{"key": "dedicated", "value": "gpu", "effect": effect}]
    return body


def cordoned(name: str) -> Manifest:
    body = node(name)
    body["spec"]["unschedulable"] = True
    return body


def affinity(*values: str, operator: str = "In", preferred: bool = False) -> Manifest:
    expression = {"key": "zone", "operator": operator, "values": list(values)}
    term = {"matchExpressions": [expression]}
    if preferred:
        wish = [{"weight": 10, "preference": term}]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


TOLERATES = [{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
A, B = node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"})
CASES = {
    "the emptiest node is taken": Case([node("a", cpu="4"), node("b", cpu="8")], pod("p"), "b"),
    "too little": Case(
        [node("a"), node("b")], pod("p", gpu=1), f"0/2 nodes are available: 2 Insufficient {GPU}."
    ),
    "several lacks": Case(
        [node("a", cpu="1")],
        pod("p", cpu="2", gpu=1),
        f"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient {GPU}.",
    ),
    "no nodes at all": Case([], pod("p"), "no nodes available to schedule pods"),
    "cordoned": Case([cordoned("a")], pod("p"), "0/1 nodes are available: 1 node(s) were unschedulable."),
    "tainted": Case([tainted("a")], pod("p"), "0/1 nodes are available: 1 node(s) had untolerated taint(s)."),
    "tolerated": Case([tainted("a")], pod("p", tolerations=TOLERATES), "a"),
    "a soft taint does not matter": Case([tainted("a", "PreferNoSchedule")], pod("p"), "a"),
    "selector": Case([A, B], pod("p", nodeSelector={"zone": "b"}), "b"),
    "selector in vain": Case(
        [A, B, cordoned("c")],
        pod("p", nodeSelector={"zone": "x"}),
        "0/3 nodes are available: 1 node(s) were unschedulable, "
        "2 node(s) didn't match Pod's node affinity/selector.",
    ),
    "required affinity": Case([A, B], pod("p", affinity=affinity("b")), "b"),
    "forbidden by affinity": Case([A, B], pod("p", affinity=affinity("a", operator="NotIn")), "b"),
    "preferred affinity": Case([A, B], pod("p", affinity=affinity("b", preferred=True)), "b"),
    "a wish that cannot be met": Case([A], pod("p", affinity=affinity("b", preferred=True)), "a"),
}


def ledger_of(*nodes: Manifest) -> Ledger:
    ledger = Ledger()
    for each in nodes:
        ledger.put_node(node_facts(each))
    return ledger


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_where_one_pod_goes(case: Case) -> None:
    ledger = ledger_of(*case.nodes)
    shape = pod_shape(case.pod)
    found = Trial(ledger).place(("default", "p"), shape)
    assert (found or ledger.diagnose(shape).text) == case.want


def candidates(count: int, *, cpu: str = "1", prefix: str = "p") -> tuple[Candidate, ...]:
    shape = pod_shape(pod("x", cpu=cpu))
    return tuple(Candidate(("default", f"{prefix}{i}"), shape) for i in range(count))


def free_cpu(ledger: Ledger) -> dict[str, int]:
    return {name: ledger.free(name)["cpu"] for name in ledger.nodes}


def test_a_failed_group_leaves_the_books_as_they_were() -> None:
    ledger = ledger_of(node("a", cpu="2"), node("b", cpu="1"))
    before, freed = free_cpu(ledger), ledger.freed
    verdict = attempt(Trial(ledger), Leaf("g", candidates(4), 4))
    assert not verdict.ok
    assert verdict.shortage is not None
    assert (verdict.shortage.scheduled, verdict.shortage.remaining) == (3, 0)
    assert (free_cpu(ledger), ledger.freed) == (before, freed)


def test_minimums_of_all_leaves_come_before_the_pods_above_them() -> None:
    ledger = ledger_of(node("a", cpu="3"))
    first = Leaf("first", candidates(3, prefix="f"), 1)
    second = Leaf("second", candidates(1, prefix="s"), 1)
    verdict = attempt(Trial(ledger), Branch("root", (first, second), 2))
    assert set(verdict.placed) == {("default", "f0"), ("default", "s0"), ("default", "f1")}
    assert set(verdict.unfit) == {("default", "f2")}


def test_a_pod_that_does_not_fit_does_not_stop_its_smaller_siblings() -> None:
    ledger = ledger_of(node("a", cpu="4"))
    giant = Candidate(("default", "giant"), pod_shape(pod("x", cpu="100")))
    verdict = attempt(Trial(ledger), Leaf("g", (giant, *candidates(2)), 2))
    assert set(verdict.placed) == {("default", "p0"), ("default", "p1")}


def test_placed_members_pin_the_domain() -> None:
    ledger = ledger_of(A, B)
    leaf = Leaf("g", candidates(1), 2, placed=("a",), required=("zone",))
    assert attempt(Trial(ledger), leaf).placed == {("default", "p0"): "a"}


def test_a_child_that_fails_is_left_out_when_the_parent_has_enough() -> None:
    ledger = ledger_of(node("a", cpu="2"))
    small, big = Leaf("small", candidates(2), 2), Leaf("big", candidates(9, prefix="b"), 9)
    verdict = attempt(Trial(ledger), Branch("root", (big, small), 1))
    assert verdict.ok
    assert set(verdict.failed) == {"big"}
    assert set(verdict.placed) == {("default", "p0"), ("default", "p1")}


def test_domains_know_nested_labels_and_ignore_nodes_without_them() -> None:
    nodes = [
        node_facts(node(name, labels=labels))
        for name, labels in {
            "a": {"zone": "1", "rack": "1"},
            "b": {"zone": "2", "rack": "1"},
            "c": {"zone": "2"},
        }.items()
    ]
    assert domains(nodes, ("zone", "rack")) == {("1", "1"): frozenset("a"), ("2", "1"): frozenset("b")}


def test_an_unchanged_node_is_no_news() -> None:
    ledger = ledger_of(A)
    assert ledger.put_node(node_facts(A)) is False
    assert ledger.put_node(node_facts(B)) is True


def test_a_node_that_shrinks_keeps_count_of_its_pods() -> None:
    ledger = ledger_of(node("a", cpu="4"))
    ledger.take(("default", "p"), pod_shape(pod("p", cpu="3")), "a")
    ledger.put_node(node_facts(node("a", cpu="2")))
    assert free_cpu(ledger) == {"a": -1000}


def test_a_gang_of_a_thousand_on_a_hundred_nodes_is_decided_within_a_second() -> None:
    ledger = ledger_of(*(node(f"n{i}", cpu="16") for i in range(100)))
    begin = time.process_time()
    verdict = attempt(Trial(ledger), Leaf("g", candidates(1000), 1000))
    assert len(verdict.placed) == 1000
    assert time.process_time() - begin < 1.0
