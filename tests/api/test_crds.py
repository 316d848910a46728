"""The CustomResourceDefinitions: fresh, small, structural, and saying what clients rely on."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from grove.api import conditions, crd, crd_files, kinds
from grove.api.rules import RULES
from grove.embedded.machinery.schema import custom_schema
from grove.embedded.machinery.structural import crd_errors
from grove.meta import Manifest

ROOT = Path(__file__).resolve().parents[2]
DEFINITIONS = {definition["metadata"]["name"]: definition for definition in crd.definitions()}


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "scripts" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def version(name: str) -> Manifest:
    versions: list[Manifest] = DEFINITIONS[name]["spec"]["versions"]
    return versions[0]


def columns(name: str, priority: int = 0) -> list[str]:
    return [
        each["name"]
        for each in version(name)["additionalPrinterColumns"]
        if each.get("priority", 0) <= priority
    ]


def test_generated_files_are_fresh() -> None:
    generator = load_generator()
    assert generator.stale(generator.wanted()) == []


def test_a_stale_file_is_named_and_the_remedy_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = load_generator()
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    (tmp_path / "src/grove/api/crds/grove.io_podcliques.yaml").write_text("kind: Old\n")
    (tmp_path / "docs/reference/podgang.md").unlink()
    capsys.readouterr()
    assert generator.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert "src/grove/api/crds/grove.io_podcliques.yaml: out of date" in said
    assert "docs/reference/podgang.md: missing" in said
    assert "make generate" in said


def test_generating_needs_no_more_than_the_runtime_dependencies() -> None:
    load_generator()
    assert "grove.api.crd" in sys.modules
    assert set(load_generator().wanted()) >= {ROOT / "src/grove/api/crds/grove.io_podcliquesets.yaml"}


def test_there_is_a_definition_for_every_kind_of_ours() -> None:
    assert set(DEFINITIONS) == {str(resource) for resource in kinds.OURS}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_is_small_enough_for_kubectl_apply(name: str) -> None:
    assert len(crd_files.as_yaml(DEFINITIONS[name])) < 100_000


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_is_structural_and_its_rules_compile(name: str) -> None:
    assert crd_errors(DEFINITIONS[name]) == []
    assert custom_schema(version(name)["schema"]["openAPIV3Schema"]).check_rules() == []


@pytest.mark.parametrize("text", crd_files.files().values(), ids=crd_files.files())
def test_a_file_says_the_same_as_its_definition(text: str) -> None:
    parsed = yaml.safe_load(text)
    assert parsed == DEFINITIONS[parsed["metadata"]["name"]]


def test_short_names_scopes_and_the_category_are_those_that_people_type() -> None:
    names = {
        definition["spec"]["names"]["kind"]: definition["spec"]["names"]
        for definition in DEFINITIONS.values()
    }
    assert {kind: entry["shortNames"] for kind, entry in names.items()} == {
        "PodCliqueSet": ["pcs"],
        "PodClique": ["pclq"],
        "PodCliqueScalingGroup": ["pcsg"],
        "ClusterTopologyBinding": ["ct"],
        "PodGang": ["pg"],
    }
    assert all(entry["categories"] == ["grove"] for entry in names.values())
    cluster = [name for name, definition in DEFINITIONS.items() if definition["spec"]["scope"] == "Cluster"]
    assert cluster == ["clustertopologybindings.grove.io"]


@pytest.mark.parametrize(
    ("name", "selector"),
    [
        ("podcliquesets.grove.io", ".status.hpaPodSelector"),
        ("podcliques.grove.io", ".status.hpaPodSelector"),
        ("podcliquescalinggroups.grove.io", ".status.selector"),
    ],
)
def test_what_can_be_scaled_has_a_selector_for_autoscalers(name: str, selector: str) -> None:
    assert version(name)["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": selector,
        },
    }


def test_gangs_and_topology_bindings_have_a_status_but_no_scale() -> None:
    assert version("podgangs.scheduler.grove.io")["subresources"] == {"status": {}}
    assert version("clustertopologybindings.grove.io")["subresources"] == {"status": {}}


def test_kubectl_get_podgang_says_why() -> None:
    assert columns("podgangs.scheduler.grove.io") == [
        "Phase",
        "Scheduled",
        "Ready",
        "Backend",
        "Age",
        "Reason",
    ]
    paths = {
        each["name"]: each["jsonPath"]
        for each in version("podgangs.scheduler.grove.io")["additionalPrinterColumns"]
    }
    assert paths["Reason"] == ".status.message"
    assert paths["Backend"] == r".metadata.labels.grove\.io/scheduler-backend"


def test_kubectl_get_shows_of_sets_and_scaling_groups_what_is_filled_in_and_the_rest_with_wide() -> None:
    progress = ["PCLQs-Updated", "PCLQs-Total", "PCSGs-Updated", "PCSGs-Total"]
    usual = ["Replicas", "Available", "Scheduled", "Updated", "Accepted", "Age", "Reason"]
    assert columns("podcliquesets.grove.io") == usual
    assert columns("podcliquesets.grove.io", priority=1) == [*usual, *progress]
    usual = ["MinAvail", "Replicas", "Available", "Scheduled", "Updated", "Age", "Reason"]
    assert columns("podcliquescalinggroups.grove.io") == usual
    assert set(columns("podcliquescalinggroups.grove.io", priority=1)) == {
        *usual,
        *progress[:2],
        "MinBreached",
    }


def test_a_gang_is_born_saying_that_its_pods_are_awaited() -> None:
    schema = custom_schema(version("podgangs.scheduler.grove.io")["schema"]["openAPIV3Schema"])
    gang: Manifest = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": "llm-0"},
        "spec": {"podgroups": []},
    }
    schema.default(gang)
    assert gang["status"]["phase"] == "Pending"
    assert [(each["type"], each["status"], each["reason"]) for each in gang["status"]["conditions"]] == [
        ("Initialized", "False", "PodGangPodsCreationPending")
    ]
    assert schema.validate(gang) == []


def test_every_rule_of_the_table_stands_in_some_schema() -> None:
    written = {text for definition in DEFINITIONS.values() for text in rule_texts(definition)}
    assert {rule.rule for rules in RULES.values() for rule in rules} == written


def rule_texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in rule_texts(item)]
    if not isinstance(value, dict):
        return []
    own = [rule["rule"] for rule in value.get("x-kubernetes-validations", ())]
    return own + [text for item in value.values() for text in rule_texts(item)]


def test_conditions_can_be_applied_by_several_writers() -> None:
    status = version("podgangs.scheduler.grove.io")["schema"]["openAPIV3Schema"]["properties"]["status"]
    listed = status["properties"]["conditions"]
    assert (listed["x-kubernetes-list-type"], listed["x-kubernetes-list-map-keys"]) == ("map", ["type"])
    assert "lastTransitionTime" not in listed["items"]["required"]


def test_every_condition_and_reason_fits_the_schema_and_has_one_meaning() -> None:
    entries = [(entry.kind, entry.type) for entry in conditions.TABLE]
    assert len(entries) == len(set(entries))
    for entry in conditions.TABLE:
        assert entry.type.isalpha()
        assert entry.reasons
        assert all(reason.isalnum() for reason in entry.reasons)


def test_every_constant_of_the_condition_vocabulary_is_in_its_table() -> None:
    listed = {entry.type for entry in conditions.TABLE} | {
        reason for entry in conditions.TABLE for reason in entry.reasons
    }
    constants = {
        value for name, value in vars(conditions).items() if name.isupper() and isinstance(value, str)
    }
    assert constants == listed


def test_sentences_with_values_are_put_together_in_the_one_way_whose_cost_a_real_server_can_bound() -> None:
    rules = [rule.manifest() for each in RULES.values() for rule in each]
    expressions = [rule["messageExpression"] for rule in rules if "messageExpression" in rule]
    assert expressions
    # What joins texts with + or join() makes a real API server refuse the definition.
    assert [each for each in expressions if not re.fullmatch(r"'.*'\.format\(\[.*\]\)", each)] == []
    assert [each for each in expressions if re.search(r"' \+|\+ '|string\(|\.join\(", each)] == []
