"""The benchmark of the backends: every built-in one is measured, and the page shows what was."""

import pytest
from bench.backends import PAGE, Results, Scheduled, markdown
from bench.cases import FLOOR_LABEL, GATE, Case, cliqueset
from bench.gangs import Gangs
from bench.latency import Latency
from bench.translation import Speed, selections, speeds

from grove.api.labels import GANG_REVISION
from grove.backends.registry import BUILT_INS
from grove.meta import Manifest
from grove.testing.world import World, run_world


def test_every_built_in_backend_is_measured() -> None:
    assert [each.backend for each in speeds()] == list(BUILT_INS)
    assert selections() > 0


def test_the_page_says_which_scheduler_needs_no_object_and_how_long_the_others_take() -> None:
    text = markdown(
        Results(
            machine="a machine",
            commit="abc",
            selections=1234.5,
            speeds=(Speed("kai", 2, 50_000.4, 60_000.0), Speed("yunikorn", 2, 9_000.0, 1.0)),
            latencies=(Latency("kai", 6.2, 23.4), Latency("yunikorn")),
            scheduled=(Scheduled("kai", "KAI Scheduler 0.12.0", "1.36", 1.5, 2.25, 3.0, 1.0, 0.5),),
        )
    )
    assert "| kai | 50,000 | 60,000 | 6 ms | 23 ms |" in text
    assert "| yunikorn | 9,000 | 1 | no object | no object |" in text
    assert "| KAI Scheduler 0.12.0 | 1.36 | 1.50 s | 2.25 s | 3.00 | 1.0 s | 0.5 s |" in text


@pytest.mark.parametrize("minor", ["1.35", "1.36", "1.37"])
def test_the_pods_of_a_gang_floor_point_to_its_objects_and_wait_for_the_driver_alone(minor: str) -> None:
    gangs = Gangs(minor, Case(5, 2))
    names = {manifest["metadata"]["name"] for _, manifest in gangs.objects(3)}
    pods = gangs.pods(3)
    assert len(pods) == 2
    for pod in pods:
        link = pod["spec"].get("schedulingGroup") or pod["spec"]["workloadRef"]
        assert (link.get("podGroupName") or link["name"]) in names
        assert pod["spec"]["schedulingGates"] == [{"name": GATE}]


def group_and_revision(pod: Manifest) -> tuple[str, str]:
    return pod["spec"]["schedulingGroup"]["podGroupName"], pod["metadata"]["annotations"][GANG_REVISION]


def test_the_pods_of_a_gang_floor_are_the_operators_but_for_owner_gate_and_revision() -> None:
    case = Case(1, 2)

    async def story(world: World) -> None:
        await world.apply(cliqueset(case))
        await world.settle()
        made = sorted(await world.pods(), key=lambda pod: str(pod["spec"]["hostname"]))
        for ours, theirs in zip(Gangs("1.36", case).pods(0), made, strict=True):
            marks = {**ours["metadata"]["labels"]}
            assert marks.pop(FLOOR_LABEL)
            assert marks.items() <= theirs["metadata"]["labels"].items()
            assert theirs["metadata"]["labels"].keys() - marks.keys() <= {"topology.kubernetes.io/zone"}
            (mine,), (other,) = ours["spec"]["containers"], theirs["spec"]["containers"]
            assert [each["name"] for each in mine["env"]] == [each["name"] for each in other["env"]]
            for field in ("hostname", "subdomain"):
                assert ours["spec"][field] == theirs["spec"][field]
            assert ours["metadata"]["annotations"].keys() == theirs["metadata"]["annotations"].keys()
            for pod in (ours, theirs):
                group, revision = group_and_revision(pod)
                assert group == f"bench-0-worker-{revision}"

    run_world(story)


def test_the_page_has_a_place_for_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- backends: begin") == page.count("<!-- backends: end -->") == 1
