"""OD1 to OD9 of the incumbent's end-to-end tests: pods follow another template when somebody deletes them."""

import pytest
from tests.e2e.judges import JUDGES
from tests.scenarios.update_stories import OD
from tests.scenarios.updating import play


@pytest.mark.parametrize("name", OD)
def test_pods_follow_when_somebody_deletes_them(name: str) -> None:
    assert OD[name].__doc__
    play(OD[name])


@pytest.mark.parametrize("judge", [judge for judge in JUDGES if judge != "1.36"])
def test_od2_holds_with_every_scheduler(judge: str) -> None:
    assert judge in JUDGES
    play(OD["OD2"], judge)
