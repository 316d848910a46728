"""A cluster with Koordinator and its quotas. The operator cannot see whether its topology plugin is on."""

from typing import Final

from grove.backends.koordinator.quota import QUOTAS
from grove.backends.koordinator.settings import settings_of
from grove.backends.sample import Sample, serving

SAMPLE: Final = Sample(
    "Koordinator",
    lambda _: serving(settings_of({}).podgroups, QUOTAS),
    local_config={"networkTopologyEnabled": True},
)
