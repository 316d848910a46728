"""What this release does not act on is refused or told, field by field."""

import pytest

from grove.api.clique import PodClique
from grove.meta import Manifest
from grove.plan.support import notices, outdated, unsupported
from grove.testing import make

REFUSED: dict[str, tuple[Manifest, str]] = {
    "startup order": (
        {"cliqueStartupType": "CliqueStartupTypeInOrder"},
        "spec.template.cliqueStartupType",
    ),
    "shared devices": (
        {"resourceSharing": [{"name": "gpus", "scope": "AllReplicas"}]},
        "spec.template.resourceSharing",
    ),
}


@pytest.mark.parametrize(("template", "field"), REFUSED.values(), ids=REFUSED)
def test_a_set_is_refused_whole_for(template: Manifest, field: str) -> None:
    cliqueset = make.cliqueset("t", {"a": 1, "b": 1}, template=template)
    assert [error.field for error in unsupported(cliqueset)] == [field]


def test_scaling_groups_are_refused() -> None:
    cliqueset = make.cliqueset("t", {"a": 1}, groups=[make.scaling_group("g", ["a"])])
    assert [error.field for error in unsupported(cliqueset)] == ["spec.template.podCliqueScalingGroups"]


def test_autoscaling_is_accepted_with_a_word() -> None:
    role = make.template("a")
    role["spec"]["autoScalingConfig"] = {"maxReplicas": 3}
    cliqueset = make.cliqueset("t", [role])
    assert unsupported(cliqueset) == []
    assert [each.field for each in notices(cliqueset)] == ["spec.template.cliques[0].spec.autoScalingConfig"]


def test_pods_of_an_older_template_are_counted() -> None:
    manifest = {**make.clique_manifest("t-0-a", 3), "status": {"replicas": 3, "updatedReplicas": 1}}
    cliques = [make.view(PodClique, manifest)]
    told = outdated(make.cliqueset("t", {"a": 3}), cliques)
    assert [each.message.split(";")[0] for each in told] == ["2 pods run an older template"]
