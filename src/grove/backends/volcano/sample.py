"""A cluster with a current release of Volcano, whose topology plugin is on and discovers HyperNodes."""

from typing import Final

from grove.backends.sample import Sample, serving
from grove.backends.volcano.objects import PODGROUPS, SUBGROUPS_FIELD, TIER_NAME_FIELD
from grove.backends.volcano.sight import HYPERNODES
from grove.backends.volcano.topology import discovered

_FIELDS: Final = frozenset({SUBGROUPS_FIELD, TIER_NAME_FIELD})

SAMPLE: Final = Sample(
    "Volcano",
    lambda _: serving(PODGROUPS, HYPERNODES, fields=_FIELDS),
    preview_config={"networkTopology": "Enabled"},
    observed=lambda binding: {HYPERNODES: discovered(binding)},
)
