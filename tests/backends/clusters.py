"""The clusters of the shipped kits, under the name by which the tests here know them."""

from grove.testing.clusters import (
    BARE,
    GROUP,
    KAI_012,
    KAI_017,
    NATIVE,
    V135,
    V136,
    V136_PLAIN,
    V137,
    V137_ALPHA_ONLY,
    V137_PLAIN,
    V137_TOPOLOGY,
    on,
)

__all__ = [
    "BARE",
    "GROUP",
    "KAI_012",
    "KAI_017",
    "NATIVE",
    "V135",
    "V136",
    "V136_PLAIN",
    "V137",
    "V137_ALPHA_ONLY",
    "V137_PLAIN",
    "V137_TOPOLOGY",
    "on",
]
