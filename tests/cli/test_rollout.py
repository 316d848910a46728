"""`grove rollout` on a cluster with an operator: what it says of updates, and what it does to a set."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grove.meta import Manifest
from grove.testing import make

from .conftest import Grove, Ran
from .processes import kubectl, started

#: The longest that an update of the small sets here may take.
LIMIT = ("--watch", "--timeout", "40")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster with an operator, for all tests of this file."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "kubeconfig"
    with started("up", "--write-kubeconfig", str(file), folder=folder) as process:
        assert process.output.readline() == f"export KUBECONFIG={file}\n", process.said
        yield file


class Cluster:
    """The commands of a user who looks after one set."""

    def __init__(self, grove: Grove, kubeconfig: Path, folder: Path, name: str) -> None:
        self._grove, self._kubeconfig, self._folder, self.name = grove, kubeconfig, folder, name

    def create(self, **fields: object) -> None:
        """Two replicas with a leader and two workers each, available."""
        manifest = make.cliqueset_manifest(self.name, {"leader": 1, "worker": 2}, replicas=2)
        manifest["spec"] |= fields
        manifest["metadata"] = {"name": self.name}
        file = self._folder / "set.json"
        file.write_text(json.dumps(manifest))
        self.kubectl("apply", "-f", str(file))
        available = "--for=jsonpath={.status.availableReplicas}=2"
        self.kubectl("wait", f"pcs/{self.name}", available, "--timeout=30s")

    def rollout(self, verb: str, *arguments: str) -> Ran:
        return self._grove("rollout", verb, self.name, *arguments, "--kubeconfig", str(self._kubeconfig))

    def kubectl(self, *arguments: str) -> str:
        return kubectl(self._kubeconfig, *arguments)

    def set_image(self, image: str, role: int = 0) -> None:
        path = f"/spec/template/cliques/{role}/spec/podSpec/containers/0/image"
        patch = json.dumps([{"op": "replace", "path": path, "value": image}])
        self.kubectl("patch", "pcs", self.name, "--type", "json", "-p", patch)

    def read(self) -> Manifest:
        found: Manifest = json.loads(self.kubectl("get", "pcs", self.name, "-o", "json"))
        return found

    def images(self) -> list[str]:
        """The images of the roles in the set."""
        roles = self.read()["spec"]["template"]["cliques"]
        return [role["spec"]["podSpec"]["containers"][0]["image"] for role in roles]

    def pods(self, role: str) -> dict[str, str]:
        """The image of each pod of a role."""
        listed = json.loads(
            self.kubectl("get", "pods", "-l", f"app.kubernetes.io/part-of={self.name}", "-o", "json")
        )
        return {
            pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
            for pod in listed["items"]
            if f"-{role}-" in pod["metadata"]["name"] and "deletionTimestamp" not in pod["metadata"]
        }

    def events(self) -> list[str]:
        listed = json.loads(self.kubectl("get", "events", "-o", "json"))
        return [
            each["reason"]
            for each in listed["items"]
            if each["involvedObject"]["kind"] == "PodCliqueSet"
            and each["involvedObject"]["name"] == self.name
        ]


@pytest.fixture
def cluster(grove: Grove, kubeconfig: Path, tmp_path: Path) -> Iterator[Callable[[str], Cluster]]:
    """The user of a set of this name, which is deleted at the end."""
    named: list[str] = []

    def user(name: str) -> Cluster:
        named.append(name)
        return Cluster(grove, kubeconfig, tmp_path, name)

    yield user
    for name in named:
        kubectl(kubeconfig, "delete", "pcs", name, "--ignore-not-found")


Users = Callable[[str], Cluster]


def test_an_update_is_watched_to_its_end_and_undone(cluster: Users) -> None:
    user = cluster("watched")
    user.create()
    idle = user.rollout("status")
    assert (idle.code, idle.err) == (0, "")
    assert idle.out.startswith(
        "PodCliqueSet default/watched  up to date  2 of 2 replicas updated and available  2 available in all"
    )
    workers = user.pods("worker")
    user.set_image("registry.example/serve:2")
    ran = user.rollout("status", *LIMIT)
    assert (ran.code, ran.err) == (0, "")
    first, last = ran.out.splitlines()[0], ran.out.splitlines()[-1]
    assert "up to date" not in first
    assert last.startswith(
        "PodCliqueSet default/watched  up to date  2 of 2 replicas updated and available  2 available in all  "
    )
    assert last.endswith("  cliques 4 of 4  strategy RollingRecreate")
    assert "   turn: replica 0" in ran.out
    assert set(user.pods("leader").values()) == {"registry.example/serve:2"}
    assert {"UpdateStarted", "UpdateFinished"} <= set(user.events())
    user.kubectl("scale", "pcs", user.name, "--replicas", "1")
    undone = user.rollout("undo")
    assert (undone.code, undone.err) == (0, "")
    assert undone.out == "podcliqueset.grove.io/watched rolled back to revision 1\n"
    assert user.rollout("status", *LIMIT).code == 0
    assert user.images()[0] == "registry.example/serve:1"
    assert user.read()["spec"]["replicas"] == 1
    assert set(user.pods("leader").values()) == {"registry.example/serve:1"}
    # The pods of a role that did not change were never touched.
    assert user.pods("worker").keys() <= workers.keys()


def test_the_history_tells_who_follows_what_and_what_differs(cluster: Users) -> None:
    user = cluster("history")
    user.create()
    user.set_image("registry.example/serve:2", role=1)
    assert user.rollout("status", *LIMIT).code == 0
    table = [line.split() for line in user.rollout("history").out.splitlines()]
    assert [row[0] for row in table] == ["REVISION", "1", "2"]
    assert (table[1][2], table[1][-1]) == ("0", "worker")
    assert table[2][2:4] == ["2", "yes"]
    data = json.loads(user.rollout("history", "-o", "json").out)
    assert [(each["revision"], each["present"], each["replicas"]) for each in data] == [
        (1, False, 0),
        (2, True, 2),
    ]
    shown = user.rollout("history", "--revision", "1")
    assert [line for line in shown.out.splitlines() if line[0] in "+-"] == [
        "--- worker, present",
        "+++ worker, revision 1",
        "-  - image: registry.example/serve:2",
        "+  - image: registry.example/serve:1",
    ]
    same = user.rollout("history", "--revision", "2")
    assert (same.out, same.err) == ("", "grove: revision 2 has the present pod templates\n")
    for arguments, told in (
        (("history", "--revision", "7"), "there is no revision 7; recorded are: 1, 2"),
        (("undo", "--to-revision", "7"), "there is no revision 7; recorded are: 1, 2"),
        (("undo", "--to-revision", "2"), "nothing to undo: the set has the pod templates of revision 2"),
    ):
        refused = user.rollout(*arguments)
        assert (refused.code, refused.out) == (1, "")
        assert told in refused.err


def test_a_paused_update_takes_nothing_down_until_it_is_resumed(cluster: Users) -> None:
    user = cluster("paused")
    user.create()
    before = user.pods("leader")
    assert user.rollout("pause").out == "podcliqueset.grove.io/paused paused\n"
    assert user.rollout("pause").out == "podcliqueset.grove.io/paused was paused already\n"
    user.set_image("registry.example/serve:2")
    held = user.rollout("status", "--watch", "--timeout", "2")
    assert held.code == 1
    assert held.err == "grove: the update of PodCliqueSet default/paused is not finished after 2 s\n"
    told = user.rollout("status").out
    assert "  paused  " in told
    assert "paused by the annotation grove.io/update-paused" in told
    assert user.pods("leader") == before
    assert (
        "note: update in progress: 0 of 2 replicas updated, 0 of them available; paused"
        in user._grove("tree", user.name, "--kubeconfig", str(user._kubeconfig)).out
    )
    assert user.rollout("resume").out == "podcliqueset.grove.io/paused resumed\n"
    assert "grove.io/update-paused" not in user.read()["metadata"].get("annotations", {})
    assert user.rollout("status", *LIMIT).code == 0
    assert set(user.pods("leader").values()) == {"registry.example/serve:2"}
    assert user.rollout("resume").out == "podcliqueset.grove.io/paused was not paused\n"


def test_a_restart_replaces_the_pods_of_the_roles_that_are_meant(cluster: Users) -> None:
    user = cluster("restarted")
    user.create()
    leaders, workers = user.pods("leader"), user.pods("worker")
    ran = user.rollout("restart", "--clique", "leader")
    assert (ran.code, ran.out) == (0, "podcliqueset.grove.io/restarted restarted: leader\n")
    assert user.rollout("status", *LIMIT).code == 0
    assert not user.pods("leader").keys() & leaders.keys()
    assert user.pods("worker") == workers
    leaders = user.pods("leader")
    # Going back takes the annotation away: the template is another one again.
    assert user.rollout("undo").code == 0
    assert user.rollout("status", *LIMIT).code == 0
    assert not user.pods("leader").keys() & leaders.keys()
    refused = user.rollout("restart", "--clique", "nobody")
    assert (refused.code, refused.out) == (1, "")
    assert "has no role nobody; its roles: leader, worker" in refused.err
    assert user.rollout("restart").code == 0
    assert user.rollout("status", *LIMIT).code == 0
    assert not user.pods("worker").keys() & workers.keys()


def test_with_on_delete_it_is_told_that_pods_wait_to_be_deleted(cluster: Users) -> None:
    user = cluster("by-hand")
    user.create(updateStrategy={"type": "OnDelete"})
    before = user.pods("leader")
    ran = user.rollout("restart", "--clique", "leader")
    assert "its strategy is OnDelete: a pod on a node takes a new template when you delete it" in ran.err
    waiting = user.rollout("status", "--watch", "--timeout", "2")
    assert waiting.code == 1
    assert "waits for pods to be deleted" in waiting.out
    assert "2 cliques with pods of an earlier template; OnDelete leaves deleting them to you" in waiting.out
    assert user.pods("leader") == before
    user.kubectl("delete", "pod", *before)
    assert user.rollout("status", *LIMIT).code == 0
    assert not user.pods("leader").keys() & before.keys()


def test_a_template_that_is_refused_is_no_update_and_can_be_undone(cluster: Users) -> None:
    user = cluster("refused")
    user.create()
    patch = [{"op": "add", "path": "/spec/template/cliques/0/spec/podSpec/imgae", "value": "x"}]
    user.kubectl("patch", "pcs", user.name, "--type", "json", "-p", json.dumps(patch))
    ran = user.rollout("status", *LIMIT)
    assert ran.code == 1
    assert "is refused, so that no update goes on: " in ran.err
    assert "imgae" in ran.err
    assert user.rollout("undo").out.endswith(" rolled back to revision 1\n")
    assert user.rollout("status", *LIMIT).code == 0


def test_status_is_data_for_programs(cluster: Users) -> None:
    user = cluster("data")
    user.create()
    user.set_image("registry.example/serve:2")
    found = json.loads(user.rollout("status", *LIMIT, "-o", "json").out)
    # Cliques tell a moment later that their pods are ready.
    assert found.pop("availableReplicas") >= 1
    assert found == {
        "name": "data",
        "namespace": "default",
        "strategy": "RollingRecreate",
        "stage": "UpToDate",
        "finished": True,
        "replicas": 2,
        "updatedReplicas": 2,
        "updatedPodCliques": 4,
        "podCliques": 4,
        "updatedScalingGroups": 0,
        "scalingGroups": 0,
    }


@pytest.mark.parametrize("verb", ["status", "history", "pause", "resume", "undo", "restart"])
def test_a_set_that_does_not_exist_is_one_sentence(cluster: Users, verb: str) -> None:
    ran = cluster("nowhere").rollout(verb)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "grove: there is no PodCliqueSet 'nowhere' in namespace 'default'\n"
