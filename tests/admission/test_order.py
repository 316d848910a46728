"""What deserves a word about the order in which roles are to start."""

import pytest

from grove.admission.order import order_notices
from grove.api.cliqueset import PodCliqueSet
from grove.testing import make

ANY, IN_ORDER, EXPLICIT = (f"CliqueStartupType{kind}" for kind in ("AnyOrder", "InOrder", "Explicit"))


def ordered(kind: str | None) -> PodCliqueSet:
    """A set whose second role names the first, with a startup type or none."""
    roles = [make.template("lead"), make.template("work")]
    roles[1]["spec"]["startsAfter"] = ["lead"]
    return make.cliqueset("t", roles, template={"cliqueStartupType": kind} if kind else {})


@pytest.mark.parametrize("kind", [None, ANY, IN_ORDER])
def test_an_order_that_nothing_follows_is_told_with_the_field_and_the_way_out(kind: str | None) -> None:
    (told,) = order_notices(ordered(kind))
    assert told.field == "spec.template.cliques[1].spec.startsAfter"
    assert f"has no effect with cliqueStartupType {kind or ANY}" in told.message
    assert EXPLICIT in told.message


def test_an_order_that_is_followed_or_not_asked_for_needs_no_word() -> None:
    assert list(order_notices(ordered(EXPLICIT))) == []
    assert list(order_notices(make.cliqueset("t", [make.template("lead"), make.template("work")]))) == []


def test_a_startup_type_that_does_not_exist_is_refused_and_not_told_beside() -> None:
    assert list(order_notices(ordered("Whenever"))) == []
