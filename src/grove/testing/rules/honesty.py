"""Honesty: what is declared is kept, what is lost is told, and a must that cannot be kept is refused."""

from collections.abc import Iterable

from grove.backends.base import Capability, Context, Fidelity, Treatment
from grove.backends.treatments import properties_of
from grove.errors import Unsupported
from grove.testing.rules.subject import MUSTS, SAMPLES, SETS, Subject


class HonestyRules(Subject):
    """What must hold for capabilities and treatments."""

    def test_what_is_declared_is_kept_without_loss(self) -> None:
        for context in self.contexts():
            for capability in self.backend.capabilities(context) & SAMPLES.keys():
                treatments = self.backend.translate(SAMPLES[capability], context).treatments
                assert capability not in _lost(treatments), f"{capability} is declared and lost"

    def test_every_property_of_a_gang_is_accounted_for(self) -> None:
        for _, gang, translation in self.translated():
            told = {each.property for each in translation.treatments}
            forgotten = [asked for asked in properties_of(gang) if asked not in told]
            assert not forgotten, f"gang {gang.name}: nothing is said about {', '.join(forgotten)}"

    def test_whatever_is_not_enforced_has_a_reason_and_is_no_must(self) -> None:
        for _, gang, translation in self.translated():
            for each in translation.treatments:
                enforced = each.fidelity is Fidelity.ENFORCED
                assert enforced or each.reason, f"gang {gang.name}: {each.property} is lost without a reason"
                refusable = each.required and each.fidelity is Fidelity.NOT_EXPRESSIBLE
                assert not refusable, f"gang {gang.name}: {each.property} is a must and was not refused"

    def test_what_is_not_declared_is_refused_or_reported(self) -> None:
        for context in self.contexts():
            for capability in SAMPLES.keys() - self.backend.capabilities(context):
                assert self._admits_inability(capability, context), f"{capability} vanishes in silence"

    def _admits_inability(self, capability: Capability, context: Context) -> bool:
        if capability in SETS and self.backend.validate(SETS[capability], context):
            return True
        try:
            lost = _lost(self.backend.translate(SAMPLES[capability], context).treatments)
        except Unsupported:
            return True
        # Whoever has no gangs at all has no minima per podgroup either.
        return capability not in MUSTS and bool(lost & {capability, Capability.GANG})


def _lost(treatments: Iterable[Treatment]) -> set[str]:
    return {each.property for each in treatments if each.fidelity is not Fidelity.ENFORCED}
