"""Which of the status changes that the watch shows are our own."""

from grove.api import kinds
from grove.controllers.memory.own_writes import OwnWrites
from grove.meta import Key

KEY = Key("default", "train-0")


class Looks:
    """Counts the looks that were asked for."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> None:
        self.number += 1


def test_a_write_of_ours_needs_no_look_when_its_answer_came_first() -> None:
    own_writes, looks = OwnWrites(), Looks()
    own_writes.writing(kinds.GANGS, KEY)
    own_writes.wrote(kinds.GANGS, KEY, "5")
    own_writes.saw(kinds.GANGS, KEY, "5", looks)
    assert looks.number == 0


def test_a_write_of_ours_needs_no_look_when_the_watch_was_faster_than_its_answer() -> None:
    own_writes, looks = OwnWrites(), Looks()
    own_writes.writing(kinds.GANGS, KEY)
    own_writes.saw(kinds.GANGS, KEY, "5", looks)
    own_writes.wrote(kinds.GANGS, KEY, "5")
    assert looks.number == 0


def test_a_change_by_somebody_else_is_looked_at_at_once() -> None:
    own_writes, looks = OwnWrites(), Looks()
    own_writes.saw(kinds.GANGS, KEY, "5", looks)
    assert looks.number == 1


def test_a_change_by_somebody_else_during_our_write_is_looked_at_when_that_is_answered() -> None:
    own_writes, looks = OwnWrites(), Looks()
    own_writes.writing(kinds.GANGS, KEY)
    own_writes.saw(kinds.GANGS, KEY, "5", looks)
    assert looks.number == 0
    own_writes.wrote(kinds.GANGS, KEY, "6")
    assert looks.number == 1
    own_writes.saw(kinds.GANGS, KEY, "6", looks)
    assert looks.number == 1


def test_a_write_whose_answer_was_lost_is_looked_at_when_it_shows() -> None:
    own_writes, looks = OwnWrites(), Looks()
    own_writes.writing(kinds.GANGS, KEY)
    own_writes.wrote(kinds.GANGS, KEY, "")
    own_writes.saw(kinds.GANGS, KEY, "5", looks)
    assert looks.number == 1


def test_a_write_that_showed_before_its_answer_was_lost_is_looked_at() -> None:
    own_writes, looks = OwnWrites(), Looks()
    own_writes.writing(kinds.GANGS, KEY)
    own_writes.saw(kinds.GANGS, KEY, "5", looks)
    own_writes.wrote(kinds.GANGS, KEY, "")
    assert looks.number == 1


def test_an_object_that_came_again_under_its_name_is_not_taken_for_an_echo() -> None:
    own_writes, looks = OwnWrites(), Looks()
    own_writes.writing(kinds.GANGS, KEY)
    own_writes.wrote(kinds.GANGS, KEY, "5")
    own_writes.gone(kinds.GANGS, KEY)
    own_writes.saw(kinds.GANGS, KEY, "5", looks)
    assert looks.number == 1


def test_an_answer_that_comes_after_its_object_is_gone_explains_nothing_later() -> None:
    own_writes, looks = OwnWrites(), Looks()
    own_writes.writing(kinds.GANGS, KEY)
    own_writes.gone(kinds.GANGS, KEY)
    own_writes.wrote(kinds.GANGS, KEY, "5")
    own_writes.saw(kinds.GANGS, KEY, "5", looks)
    assert looks.number == 1
