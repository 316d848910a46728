"""Gangs that native objects and pods are tested with."""

from grove.backends.default import DefaultBackend
from grove.testing import make

BACKEND = DefaultBackend()
RACK, ZONE, HOST = "example.com/rack", "topology.kubernetes.io/zone", "kubernetes.io/hostname"

SINGLE = make.gang("g", {"worker": 4}, uid="u1")
PAIR = make.gang("g", {"leader": 1, "worker": 3}, uid="u1", priority="high", required=RACK)
OPTIONAL = make.gang("g", {"leader": 1, "spare": 0}, uid="u1")
TREE = make.gang(
    "g",
    [
        make.podgroup("frontend", 1),
        make.podgroup("leader", 1),
        make.podgroup("worker", 3, required=HOST),
    ],
    uid="u1",
    required=ZONE,
    priority="high",
    groups=[make.group("decode", ["leader", "worker"], required=RACK)],
)
ONE_PACKED = make.gang("g", [make.podgroup("a", 2, required=RACK)], uid="u1")
PER_PODGROUP = make.gang("g", [make.podgroup("a", 2, required=RACK), make.podgroup("b", 1)], uid="u1")
OF_SET = make.gang("train-0", {"train-0-worker": 2}, uid="u1", cliqueset="train")
PLAIN_PAIR = make.gang("g", {"leader": 1, "worker": 3}, uid="u1")
SLEEPING = make.gang("g", {"leader": 1, "worker": 0}, uid="u1")
