"""The demonstration's lines: each follows from what a watch brought, once, and none too early."""

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.cli.narrator import Narrator
from grove.meta import Key, Manifest
from grove.testing import make

GANG = Key("default", "train-0")
CLIQUE = "train-0-worker"
GATE = "example.com/gate"


class Audience:
    """A narrator and what it has told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.narrator = Narrator(lambda what, text: self.told.append(f"{what}: {text}"), lambda: None)

    def heard(self) -> list[str]:
        """What was told since the last time."""
        told, self.told[:] = list(self.told), []
        return told


def gang(phase: str = "Pending", *conditions: Manifest) -> PodGang:
    manifest = make.gang_manifest(GANG.name, {CLIQUE: 2}, labels={labels.SCHEDULER_BACKEND: "default"})
    manifest["status"] = {"phase": phase, "conditions": list(conditions)}
    return make.view(PodGang, manifest)


def clique() -> PodClique:
    spec: Manifest = {"replicas": 2, "podSpec": {}}
    marks = {labels.POD_GANG: GANG.name}
    return make.view(PodClique, make.object_manifest(kinds.CLIQUES, CLIQUE, spec, labels=marks))


def pod(name: str, *, gated: bool = False, node: str = "", ready: bool = False) -> Pod:
    spec: Manifest = {"nodeName": node, "schedulingGates": [{"name": GATE}] if gated else []}
    marks = {labels.POD_GANG: GANG.name, labels.POD_CLIQUE: CLIQUE}
    manifest = make.object_manifest(kinds.PODS, name, spec, labels=marks)
    manifest["status"] = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return make.view(Pod, manifest)


def unschedulable(message: str) -> Manifest:
    return {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": message}


def test_milestones_are_told_when_the_last_pod_has_reached_them() -> None:
    audience = Audience()
    tell = audience.narrator
    tell.gang(None, gang())
    tell.clique(None, clique())
    assert audience.heard() == [f"gang: train-0 created for backend default; needs {CLIQUE} 2"]
    tell.pod(None, pod("a", gated=True))
    assert audience.heard() == []
    tell.pod(None, pod("b", gated=True))
    assert audience.heard() == [f"gated: train-0: 2 pods created, held back by {GATE}"]
    tell.pod(None, pod("a"))
    assert audience.heard() == []
    tell.pod(None, pod("b"))
    assert audience.heard() == ["released: train-0: gates of all 2 pods opened"]
    tell.pod(None, pod("a", node="n1", ready=True))
    tell.pod(None, pod("b", node="n1"))
    assert audience.heard() == ["bound: train-0: 2 pods bound to n1 (2)"]
    tell.pod(None, pod("b", node="n1", ready=True))
    assert audience.heard() == []
    tell.gang(gang(), gang("Running"))
    assert audience.heard() == ["running: train-0: 2 pods running and ready"]
    assert tell.running(GANG)


def test_nothing_is_told_twice() -> None:
    audience = Audience()
    for _ in range(2):
        audience.narrator.gang(None, gang("Pending", unschedulable("no room")))
    assert len(audience.heard()) == 2
    assert audience.narrator.why_not(GANG) == "no room"


def test_a_scaled_gang_is_told_with_its_base_and_that_it_waits_for_it() -> None:
    manifest = make.gang_manifest(
        GANG.name, {CLIQUE: 2}, labels={labels.BASE_POD_GANG: "train", labels.SCHEDULER_BACKEND: "kai"}
    )
    waiting = {
        "type": "Scheduled",
        "status": "False",
        "reason": "WaitingForBaseGang",
        "message": "train first",
    }
    manifest["status"] = {"phase": "Pending", "conditions": [waiting]}
    audience = Audience()
    audience.narrator.gang(None, make.view(PodGang, manifest))
    assert audience.heard() == [
        f"gang: train-0 created for backend kai; needs {CLIQUE} 2; to be placed after its base gang train",
        "why not: train-0: train first",
    ]


def test_a_gang_that_was_placed_after_all_no_longer_has_a_reason() -> None:
    audience = Audience()
    audience.narrator.gang(None, gang("Pending", unschedulable("no room")))
    audience.narrator.gang(gang(), gang("Starting", {"type": "Scheduled", "status": "True"}))
    assert audience.narrator.why_not(GANG) == ""


def test_a_refused_set_tells_why_and_counts_as_settled() -> None:
    manifest = make.object_manifest(kinds.CLIQUESETS, "train", {"replicas": 1, "template": {"cliques": []}})
    waiting = make.view(PodCliqueSet, manifest)
    manifest["status"] = {"conditions": [{"type": "Accepted", "status": "False", "message": "no rack"}]}
    refused = make.view(PodCliqueSet, manifest)
    audience = Audience()
    audience.narrator.cliqueset(None, waiting)
    assert not audience.narrator.settled()
    audience.narrator.cliqueset(waiting, refused)
    assert audience.heard() == ["refused: train: no rack"]
    assert audience.narrator.settled()
