"""The page of labels, annotations and environment variables is complete and names nothing else."""

import re
from pathlib import Path
from typing import Final

from grove.api import labels
from grove.plan.environment import group_environment
from grove.plan.pods import NewPod, desired_pod
from grove.testing import make

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "guides" / "labels.md").read_text()


def test_every_key_that_grove_reads_or_writes_is_on_the_page() -> None:
    keys = {
        value
        for name, value in vars(labels).items()
        if name.isupper() and isinstance(value, str)
        if "/" in value
    }
    told = set(re.findall(r"`([a-z.]+/[a-z.-]+)`", PAGE))
    assert keys - told - {labels.GROVE_PREFIX, labels.OURS} == set()


def test_every_key_of_ours_on_the_page_exists() -> None:
    keys = {value for name, value in vars(labels).items() if name.isupper() and isinstance(value, str)}
    told = set(re.findall(r"`((?:[a-z]+\.)?grove\.io/[a-z.-]*)`", PAGE))
    assert told - keys == set()


def test_the_page_names_the_variables_that_containers_get_and_no_others() -> None:
    clique = make.clique()
    pod = desired_pod(clique, NewPod(0, "train-0-worker-abcde"), "revision")
    given = {variable["name"] for variable in pod["spec"]["containers"][0]["env"]}
    given |= {variable["name"] for variable in group_environment(pods=2)}
    assert set(re.findall(r"`(GROVE_\w+)`", PAGE)) == given
