"""Names that Grove derives: they fit, they can be read back, and they depend on nothing but their parts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api import names

LABELS = st.from_regex(r"[a-z]([-a-z0-9]{0,43}[a-z0-9])?", fullmatch=True)
INDICES = st.integers(min_value=0, max_value=999)


@given(LABELS, INDICES)
def test_the_index_of_a_hostname_can_be_read_back(clique: str, index: int) -> None:
    assert names.hostname_index(clique, names.hostname(clique, index)) == index


@pytest.mark.parametrize(
    "hostname",
    ["other-0", "worker-²", "worker-", "worker-x", "worker-01", "worker", "worker--1", "my-worker-0"],
)
def test_a_hostname_of_something_else_has_no_index(hostname: str) -> None:
    assert names.hostname_index("worker", hostname) is None


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_suffix_is_five_harmless_characters_that_never_change(parts: list[str]) -> None:
    suffix = names.suffix(*parts)
    assert suffix == names.suffix(*parts)
    assert re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{5}", suffix)


def test_a_replacement_pod_has_another_name_than_the_pod_it_replaces() -> None:
    first = names.pod("llm-0-fe", "uid-1", 0)
    assert first == names.pod("llm-0-fe", "uid-1", 0)
    assert names.pod("llm-0-fe", "uid-1", 0, attempt=1) != first
    assert names.pod("llm-0-fe", "uid-2", 0) != first


@given(st.data())
def test_names_within_the_budget_lead_to_pods_that_kubernetes_accepts(data: st.DataObject) -> None:
    cliqueset = data.draw(LABELS.filter(lambda name: len(name) <= 40))
    left = names.NAME_BUDGET - len(cliqueset)
    group = data.draw(LABELS.map(lambda name: name[: left - 1]).filter(lambda name: not name.endswith("-")))
    clique = data.draw(
        LABELS.map(lambda name: name[: left - len(group)]).filter(lambda name: not name.endswith("-"))
    )
    assert len(cliqueset) + len(group) + len(clique) <= names.NAME_BUDGET
    replica, copy = data.draw(INDICES), data.draw(INDICES)
    scaled = names.group_clique(names.scaling_group(cliqueset, replica, group), copy, clique)
    alone = names.clique(cliqueset, replica, clique)
    for derived in (scaled, alone):
        assert len(names.pod(derived, "uid", 0)) <= names.LABEL_LIMIT
        assert len(names.hostname(derived, 999)) <= names.LABEL_LIMIT
        assert names.set_replica(cliqueset, derived) == replica


@given(st.from_regex(r"[a-z][a-z0-9.-]{0,120}", fullmatch=True))
def test_a_shortened_name_fits_and_a_short_one_is_kept(name: str) -> None:
    short = names.shortened(name)
    assert len(short) <= names.LABEL_LIMIT
    assert short == name or len(name) > names.LABEL_LIMIT
