"""The recorded templates of a set: those that something follows are kept, and the last ten beyond them."""

from tests.scenarios.updating import NAME, REVISIONS, Rollout, edited, play, shape, version_of

from grove.api import kinds, labels


def numbers(rollout: Rollout) -> list[int]:
    return sorted(each["revision"] for each in rollout.scene.ledger.all(REVISIONS))


def followed(rollout: Rollout) -> dict[str, int]:
    """The number of the template that each gang follows."""
    records = {each["metadata"]["name"]: each["revision"] for each in rollout.scene.ledger.all(REVISIONS)}
    return {
        gang["metadata"]["name"]: records[
            f"{NAME}-{gang['metadata']['annotations'][labels.TEMPLATE_REVISION]}"
        ]
        for gang in rollout.scene.ledger.all(kinds.GANGS)
    }


async def record(rollout: Rollout, number: int) -> None:
    """Another template, until it is recorded."""
    rollout.manifest = edited(rollout.manifest, ("pc-a", "pc-b", "pc-c"), str(number))
    await rollout.apply()
    await rollout.until(lambda: number in numbers(rollout), f"template {number} is recorded", seconds=30)


def test_templates_that_something_follows_are_kept_and_the_last_ten_beyond_those() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(shape((1, 1), (1, 1), (1, 1), replicas=2), 6)
        assert numbers(rollout) == [1]
        # Replica 0 finds no nodes for what is new, so that the turn of replica 1 does not come.
        await rollout.cordon()
        for number in range(2, 16):
            await record(rollout, number)
        await rollout.until(lambda: followed(rollout)[f"{NAME}-0"] == 15, "replica 0 follows the last one")
        await rollout.stays(lambda: numbers(rollout) == [1, *range(5, 15), 15])
        assert followed(rollout) == {f"{NAME}-0": 15, f"{NAME}-1": 1}
        assert {version_of(pod) for pod in rollout.pods(f"{NAME}-1-")} == {""}
        # The first one is history too once nothing follows it, and the oldest of all.
        await rollout.cordon(usable=True)
        await rollout.finish(6, to="15")
        await rollout.until(lambda: numbers(rollout) == [*range(5, 15), 15], "the first one is given up")

    play(story)
