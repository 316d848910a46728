"""Quantities of one value have one usual text."""

import pytest

from grove.api.quantities import quantity, usual

USUAL = (
    "0",
    "1",
    "8",
    "512",
    "100m",
    "1500m",
    "1u",
    "1n",
    "1000",
    "10240",
    "2G",
    "500G",
    "1T",
    "1024M",
    "100E",
)
BINARY = ("1Gi", "1500Mi", "1536Mi", "1000Ki", "64Gi", "2Ti", "1Ei", "-1Gi")
OTHERS = {
    "0.0": "0",
    "+1": "1",
    "1000m": "1",
    "0.5": "500m",
    ".5": "500m",
    "1.5Gi": "1536Mi",
    "1024Mi": "1Gi",
    "1073741824": "1Gi",
    "1k": "1000",
    "1e3": "1000",
    "1E3": "1000",
    "1Ki": "1024",
    "2000k": "2M",
    "1000000": "1M",
    "-0.5": "-500m",
    "0.1n": "1n",
}


@pytest.mark.parametrize("text", [*USUAL, *BINARY])
def test_what_is_usually_written_is_its_own_text(text: str) -> None:
    assert usual(text) == text


@pytest.mark.parametrize(("text", "want"), OTHERS.items())
def test_other_texts_have_the_usual_one(text: str, want: str) -> None:
    assert usual(text) == want
    assert quantity(text) == quantity(want)


@pytest.mark.parametrize("text", ["", "many", "1Kib", "1e9999", "1 Gi"])
def test_what_is_no_quantity_has_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        usual(text)
