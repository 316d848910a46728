"""What a set means where it says nothing."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from grove.admission import default
from grove.meta import Manifest


def cliqueset(*specs: Manifest, groups: list[Manifest] | None = None) -> Manifest:
    template: Manifest = {
        "cliques": [{"name": f"c{index}", "spec": spec} for index, spec in enumerate(specs)]
    }
    if groups is not None:
        template["podCliqueScalingGroups"] = groups
    return {"metadata": {"name": "llm"}, "spec": {"template": template}}


def clique_spec(**spec: object) -> Manifest:
    found: Manifest = default(cliqueset(spec))["spec"]["template"]["cliques"][0]["spec"]
    return found


def test_everything_that_is_left_open_is_filled_in() -> None:
    pods: Manifest = {"containers": [{"name": "main"}]}
    assert default(cliqueset({"podSpec": pods}, groups=[{"name": "g", "cliqueNames": ["c0"]}])) == {
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": {
            "replicas": 0,
            "template": {
                "cliques": [
                    {
                        "name": "c0",
                        "spec": {
                            "roleName": "",
                            "replicas": 1,
                            "minAvailable": 1,
                            "podSpec": {
                                "containers": [{"name": "main"}],
                                "restartPolicy": "Always",
                                "terminationGracePeriodSeconds": 30,
                            },
                        },
                    }
                ],
                "podCliqueScalingGroups": [
                    {"name": "g", "cliqueNames": ["c0"], "replicas": 1, "minAvailable": 1}
                ],
                "cliqueStartupType": "CliqueStartupTypeAnyOrder",
                "terminationDelay": "4h0m0s",
                "headlessServiceConfig": {"publishNotReadyAddresses": True},
            },
        },
    }


def test_what_the_user_wrote_is_kept() -> None:
    spec = clique_spec(
        replicas=4,
        minAvailable=2,
        roleName="r",
        podSpec={"restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
    )
    assert spec == {
        "replicas": 4,
        "minAvailable": 2,
        "roleName": "r",
        "podSpec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
    }


def test_omitted_replicas_do_not_become_a_minimum_of_zero() -> None:
    assert clique_spec(podSpec={})["minAvailable"] == 1
    assert clique_spec(podSpec={}, replicas=None)["minAvailable"] == 1


def test_a_role_that_sleeps_gets_its_minimum_when_it_wakes() -> None:
    assert "minAvailable" not in clique_spec(podSpec={}, replicas=0)
    assert clique_spec(podSpec={}, replicas=3)["minAvailable"] == 3


def test_autoscaling_starts_from_the_replicas() -> None:
    assert (
        clique_spec(replicas=3, autoScalingConfig={"maxReplicas": 5})["autoScalingConfig"]["minReplicas"] == 3
    )
    group = {"name": "g", "cliqueNames": ["c0"], "replicas": 2, "scaleConfig": {"maxReplicas": 6}}
    filled = default(cliqueset({}, groups=[group]))["spec"]["template"]["podCliqueScalingGroups"][0]
    assert filled["scaleConfig"] == {"maxReplicas": 6, "minReplicas": 2}


def test_autoscaling_of_what_is_scaled_to_zero_starts_from_its_minimum() -> None:
    role = clique_spec(replicas=0, minAvailable=2, autoScalingConfig={"maxReplicas": 5})
    assert role["autoScalingConfig"]["minReplicas"] == 2
    group = {"name": "g", "cliqueNames": ["c0"], "replicas": 0, "minAvailable": 3}
    filled = default(cliqueset({}, groups=[{**group, "scaleConfig": {"maxReplicas": 6}}]))
    assert filled["spec"]["template"]["podCliqueScalingGroups"][0]["scaleConfig"]["minReplicas"] == 3


def test_the_given_manifest_is_not_changed() -> None:
    manifest = cliqueset({"podSpec": {}})
    before = copy.deepcopy(manifest)
    default(manifest)
    assert manifest == before


@given(st.integers(0, 5), st.none() | st.integers(1, 5), st.booleans())
def test_filling_in_twice_is_the_same_as_once(replicas: int, minimum: int | None, scaled: bool) -> None:
    spec: Manifest = {"replicas": replicas, "minAvailable": minimum, "podSpec": {}}
    if scaled:
        spec["autoScalingConfig"] = {"maxReplicas": 9}
    once = default(cliqueset(spec))
    assert default(once) == once
