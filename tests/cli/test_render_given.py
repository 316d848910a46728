"""What the files of `grove render` hold beside sets decides what is shown; what is lacking is said."""

from pathlib import Path
from typing import Any

import yaml

from grove.meta import Manifest

from .conftest import Grove
from .test_render import cliqueset, items, of_kind

TEMPLATE: Manifest = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "nic", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "nic"}]}}},
}


def sharing() -> Manifest:
    """A set whose pods share a device by a template that it does not hold itself."""
    made = cliqueset()
    made["spec"]["template"]["resourceSharing"] = [{"name": "nic", "scope": "AllReplicas"}]
    return made


def configuration(*profiles: Manifest, **more: Any) -> Manifest:
    return {
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "scheduler": {"profiles": list(profiles)},
        **more,
    }


def written(folder: Path, *documents: Manifest) -> str:
    path = folder / "given.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def test_claims_are_made_from_a_template_that_is_given(grove: Grove, tmp_path: Path) -> None:
    ran = grove("render", "-f", written(tmp_path, sharing(), TEMPLATE))
    assert (ran.code, ran.err) == (0, "")
    (claim,) = of_kind(items(ran), "ResourceClaim")
    assert claim["metadata"]["name"] == "train-all-nic"
    assert claim["spec"] == TEMPLATE["spec"]["spec"]


def test_claims_that_are_not_shown_are_told_on_standard_error_and_as_a_comment(
    grove: Grove, tmp_path: Path
) -> None:
    ran = grove("render", "-f", written(tmp_path, sharing()))
    told = "ResourceClaimTemplate default/nic is in none of the files: claims from it are not shown"
    assert ran.code == 0
    assert told in ran.err
    assert any(line.startswith("# ") and told in line for line in ran.out.splitlines())
    assert of_kind(items(ran), "ResourceClaim") == []
    assert of_kind(items(ran), "Pod")[0]["spec"]["resourceClaims"]


def test_a_template_of_another_namespace_is_another_template(grove: Grove, tmp_path: Path) -> None:
    elsewhere = {**TEMPLATE, "metadata": {"name": "nic", "namespace": "other"}}
    ran = grove("render", "-f", written(tmp_path, sharing(), elsewhere))
    assert "ResourceClaimTemplate default/nic is in none of the files" in ran.err


def test_the_configuration_says_which_backend_takes_a_set_that_names_none(
    grove: Grove, tmp_path: Path
) -> None:
    given = configuration({"name": "volcano"})
    given["scheduler"]["defaultProfileName"] = "volcano"
    ran = grove("render", "-f", written(tmp_path, cliqueset(), given))
    assert {pod["spec"]["schedulerName"] for pod in of_kind(items(ran), "Pod")} == {"volcano"}


def test_limits_of_the_configuration_hold(grove: Grove, tmp_path: Path) -> None:
    ran = grove("render", "-f", written(tmp_path, cliqueset(), configuration(limits={"podsPerSet": 1})))
    assert (ran.code, ran.out) == (1, "")
    assert "2 pods" in ran.err


def test_a_backend_that_the_configuration_does_not_enable_is_refused(grove: Grove, tmp_path: Path) -> None:
    ran = grove("render", "-f", written(tmp_path, cliqueset(), configuration()), "--backend", "kai")
    assert (ran.code, ran.out) == (1, "")
    assert "'kai' is not enabled in the given OperatorConfiguration" in ran.err


def test_a_configuration_that_is_wrong_is_told_with_its_place(grove: Grove, tmp_path: Path) -> None:
    wrong = configuration({"name": "nobody"})
    ran = grove("render", "-f", written(tmp_path, cliqueset(), wrong))
    assert (ran.code, ran.out) == (1, "")
    assert (
        "given.yaml: document 2: scheduler.profiles[0].name: 'nobody' is not a scheduler backend" in ran.err
    )


def test_there_is_one_configuration(grove: Grove, tmp_path: Path) -> None:
    ran = grove("render", "-f", written(tmp_path, cliqueset(), configuration(), configuration()))
    assert (ran.code, ran.out) == (1, "")
    assert "given.yaml: document 3: is the second OperatorConfiguration; an operator has one" in ran.err
