"""Honesty: what is declared is kept, what is lost is told, and a must that cannot be kept is refused."""

from collections.abc import Iterable

from grove.backends.base import Capability, Context, Fidelity, Loss
from grove.backends.losses import properties_of
from grove.errors import Unsupported
from grove.testing.rules.subject import MUSTS, SAMPLES, SETS, Subject


class HonestyRules(Subject):
    """What must hold for capabilities and losses."""

    def test_what_is_declared_is_kept_without_loss(self) -> None:
        for context in self.contexts():
            for capability in self.backend.capabilities(context) & SAMPLES.keys():
                losses = self.backend.translate(SAMPLES[capability], context).losses
                assert capability not in _lost(losses), f"{capability} is declared and lost"

    def test_every_property_of_a_gang_is_accounted_for(self) -> None:
        for _, gang, translation in self.translated():
            told = {loss.property for loss in translation.losses}
            forgotten = [asked for asked in properties_of(gang) if asked not in told]
            assert not forgotten, f"gang {gang.name}: nothing is said about {', '.join(forgotten)}"

    def test_whatever_is_not_enforced_has_a_reason_and_is_no_must(self) -> None:
        for _, gang, translation in self.translated():
            for loss in translation.losses:
                enforced = loss.fidelity is Fidelity.ENFORCED
                assert enforced or loss.reason, f"gang {gang.name}: {loss.property} is lost without a reason"
                refusable = loss.required and loss.fidelity is Fidelity.NOT_EXPRESSIBLE
                assert not refusable, f"gang {gang.name}: {loss.property} is a must and was not refused"

    def test_what_is_not_declared_is_refused_or_reported(self) -> None:
        for context in self.contexts():
            for capability in SAMPLES.keys() - self.backend.capabilities(context):
                assert self._admits_inability(capability, context), f"{capability} vanishes in silence"

    def _admits_inability(self, capability: Capability, context: Context) -> bool:
        if capability in SETS and self.backend.validate(SETS[capability], context):
            return True
        try:
            lost = _lost(self.backend.translate(SAMPLES[capability], context).losses)
        except Unsupported:
            return True
        # Whoever has no gangs at all has no minima per podgroup either.
        return capability not in MUSTS and bool(lost & {capability, Capability.GANG})


def _lost(losses: Iterable[Loss]) -> set[str]:
    return {loss.property for loss in losses if loss.fidelity is not Fidelity.ENFORCED}
