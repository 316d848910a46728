"""Updates that meet one another."""

import pytest
from tests.scenarios.updating import Rollout, play, wl1


@pytest.mark.parametrize("replica", [0, 1, 2])
def test_a_second_update_during_the_first_one_ends(replica: int) -> None:
    """grove#400, grove PR#671: a second update during the first one ends with the second template everywhere."""

    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(3), 30)
        await rollout.change()
        await rollout.until_touched(replica)
        # For other roles than the first one as well, so that replicas which were done are not.
        await rollout.change("pc-b", to="3")
        await rollout.finish(30, to="3", roles=("pc-b",))
        assert set(rollout.versions("pc-a", "pc-c")) == {"2"}
        rollout.assert_deleted_first()

    play(story)
