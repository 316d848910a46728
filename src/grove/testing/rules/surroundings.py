"""Surroundings: a backend knows its own name, and says what it lacks instead of failing."""

from grove.backends.base import Capability, Context, Translation
from grove.errors import Unsupported, Waiting
from grove.testing.rules.subject import SAMPLES, Subject


class SurroundingsRules(Subject):
    """What must hold for names and preconditions."""

    def test_pods_that_ask_for_its_scheduler_are_its_own(self) -> None:
        assert self.backend.matches(self.backend.scheduler_name), "it does not match its own schedulerName"
        assert self.backend.name == self.backend.name.lower(), (
            "the name is the value of a label in lower case"
        )

    def test_preconditions_are_empty_on_supported_clusters(self) -> None:
        for context in self.contexts():
            missing = [each.missing for each in self.backend.preconditions(context) if each.missing]
            assert not missing, f"contexts() is not complete: {'; '.join(missing)}"

    def test_on_an_empty_cluster_it_says_what_is_missing_or_does_without(self) -> None:
        empty = Context()
        missing = [each for each in self.backend.preconditions(empty) if each.missing]
        assert all(each.name for each in missing), "a precondition has no name"
        assert all(" " in each.missing for each in missing), "what is missing must be a sentence"
        assert missing or self._works(empty), "it cannot work and no precondition says why"

    def _works(self, context: Context) -> bool:
        try:
            made: Translation = self.backend.translate(SAMPLES[Capability.GANG], context)
        except (Unsupported, Waiting):
            return False
        return made.treatments != ()
