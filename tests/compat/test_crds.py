"""Our definitions accept whatever the incumbent's accept: every field is there, with the same type and default."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from grove.api import crd
from grove.meta import Manifest

pytestmark = pytest.mark.compat

SHARED = Path(os.environ.get("GROVE_SHARED", "../shared"))
FOLDER = SHARED / "data" / "crds" / "grove"
#: Kept verbatim by ours, so that there is nothing to compare below.
VERBATIM = ("podSpec", "metrics", "templateSpec")
OURS = {definition["metadata"]["name"]: definition for definition in crd.definitions()}


@cache
def theirs() -> dict[str, Manifest]:
    found = [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]
    return {definition["metadata"]["name"]: definition for definition in found}


def schema(definition: Manifest) -> Manifest:
    found: Manifest = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def differences(ours: Manifest, incumbent: Manifest, path: str) -> Iterator[str]:
    for keyword in ("type", "format", "enum", "x-kubernetes-list-map-keys"):
        if keyword in incumbent and ours.get(keyword) != incumbent[keyword]:
            yield f"{path}: {keyword} {ours.get(keyword)!r}, not {incumbent[keyword]!r}"
    if "default" in incumbent and ours.get("default") != incumbent["default"]:
        yield f"{path}: default {ours.get('default')!r}, not {incumbent['default']!r}"
    stricter = set(ours.get("required", ())) - set(incumbent.get("required", ()))
    if stricter:
        yield f"{path}: required by us alone: {sorted(stricter)}"
    for name, value in incumbent.get("properties", {}).items():
        at = f"{path}.{name}"
        if name not in ours.get("properties", {}):
            yield f"{at}: missing"
        elif name in VERBATIM:
            yield from () if ours["properties"][name]["type"] == value["type"] else [f"{at}: another type"]
        else:
            yield from differences(ours["properties"][name], value, at)
    for nested in ("items", "additionalProperties"):
        if nested in incumbent:
            yield from differences(ours.get(nested, {}), incumbent[nested], f"{path}[]")


def test_the_incumbents_definitions_are_all_there() -> None:
    assert set(theirs()) == set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_every_field_of_the_incumbent_is_there_and_no_stricter(name: str) -> None:
    assert list(differences(schema(OURS[name]), schema(theirs()[name]), "")) == []


@pytest.mark.parametrize("name", OURS)
def test_names_scope_and_subresources_are_the_incumbents(name: str) -> None:
    mine, incumbent = OURS[name]["spec"], theirs()[name]["spec"]
    assert mine["group"] == incumbent["group"]
    assert mine["scope"] == incumbent["scope"]
    assert {key: mine["names"][key] for key in incumbent["names"]} == incumbent["names"]
    assert mine["versions"][0]["name"] == incumbent["versions"][0]["name"]
    assert mine["versions"][0]["subresources"] == incumbent["versions"][0]["subresources"]


@pytest.mark.parametrize("name", OURS)
def test_every_column_of_the_incumbent_is_shown(name: str) -> None:
    mine = {
        column["name"]: column for column in OURS[name]["spec"]["versions"][0]["additionalPrinterColumns"]
    }
    for column in theirs()[name]["spec"]["versions"][0]["additionalPrinterColumns"]:
        # What this release cannot fill in is shown with `-o wide` only.
        wanted = {key: value for key, value in column.items() if key not in ("description", "priority")}
        assert {key: value for key, value in mine[column["name"]].items() if key != "priority"} == wanted


@pytest.mark.parametrize("name", OURS)
def test_the_incumbents_rules_hold_too(name: str) -> None:
    assert set(rules(schema(theirs()[name]))) <= set(rules(schema(OURS[name])))


def rules(value: object) -> Iterator[tuple[str, str]]:
    """Rule and message of everything outside what is kept verbatim."""
    if isinstance(value, list):
        for item in value:
            yield from rules(item)
    if isinstance(value, dict):
        for rule in value.get("x-kubernetes-validations", ()):
            yield " ".join(rule["rule"].split()), rule["message"]
        for key, item in value.items():
            if key not in VERBATIM:
                yield from rules(item)
