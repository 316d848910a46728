"""The clusters of the shipped kits, under the name by which the tests here know them."""

from dataclasses import replace

from grove.backends.base import Cluster, Context
from grove.testing import clusters as shipped
from grove.testing.clusters import (
    BARE,
    GROUP,
    NATIVE,
    V135,
    V136,
    V136_PLAIN,
    V137,
    V137_ALPHA_ONLY,
    V137_PLAIN,
    V137_TOPOLOGY,
)
from grove.testing.kits.kai import KAI_012, KAI_017

__all__ = [
    "BARE",
    "GROUP",
    "KAI_012",
    "KAI_017",
    "NATIVE",
    "REVISION",
    "V135",
    "V136",
    "V136_PLAIN",
    "V137",
    "V137_ALPHA_ONLY",
    "V137_PLAIN",
    "V137_TOPOLOGY",
    "on",
]

#: The revision of every gang here: short, so that names can be read.
REVISION = "r1"


def on(cluster: Cluster, **config: object) -> Context:
    """A cluster with this profile configuration, as a gang of the revision `REVISION` meets it."""
    return replace(shipped.on(cluster, **config), revision=REVISION)
