"""What a backend says about itself is remembered for as long as cluster and configuration stay the same."""

from grove.api.config import load
from grove.backends.base import Context, Edit, Traits
from grove.backends.kai import KaiBackend
from grove.backends.registry import Registry
from grove.testing.world import World, WorldOptions, run_world


class Counting(KaiBackend):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def traits(self, context: Context) -> Traits:
        self.asked += 1
        return Traits(editable=frozenset({Edit.PRIORITY} if context.config.get("queue") else ()))


class Plain(KaiBackend):
    """Has the required methods only."""

    traits = None  # type: ignore[assignment]


def test_traits_are_asked_for_again_only_when_the_configuration_changes() -> None:
    async def story(world: World) -> None:
        assert world.operator is not None
        scheduling, backend = world.operator.scheduling, Counting()
        await scheduling.reconfigure(Registry([backend], "kai"), {}, frozenset())
        assert [scheduling.traits(backend).editable for _ in range(3)] == [frozenset()] * 3
        before = backend.asked
        assert [scheduling.traits(backend).editable for _ in range(3)] == [frozenset()] * 3
        assert backend.asked == before
        await scheduling.reconfigure(Registry([backend], "kai"), {"kai": {"queue": "a"}}, frozenset())
        assert scheduling.traits(backend).editable == {Edit.PRIORITY}

    run_world(story, WorldOptions(schedulers=("kai",), configuration=load("")))


def test_a_backend_with_the_required_methods_alone_and_no_backend_have_none() -> None:
    async def story(world: World) -> None:
        assert world.operator is not None
        scheduling, backend = world.operator.scheduling, Plain()
        await scheduling.reconfigure(Registry([backend], "kai"), {}, frozenset())
        assert (scheduling.traits(backend), scheduling.traits(None)) == (Traits(), Traits())
        assert (scheduling.observed_by(backend), scheduling.event_sources()) == ([], {})

    run_world(story, WorldOptions(schedulers=("kai",), configuration=load("")))
