"""What `grove doctor` may conclude from a Lease: the name of kube-scheduler's is known, others' are guesses."""

from datetime import UTC, datetime, timedelta

import pytest

from grove.backends.registry import BUILT_INS
from grove.cli.doctoring.schedulers import _judged
from grove.meta import Manifest

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lease(name: str, ago: timedelta) -> Manifest:
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": (NOW - ago).isoformat()}
    return {"metadata": {"namespace": "kube-system", "name": name}, "spec": spec}


def said(backend: str, *leases: Manifest) -> str:
    return _judged(BUILT_INS[backend](), leases, NOW).message


def test_a_native_scheduler_whose_lease_is_overdue_does_not_run() -> None:
    assert said("default", lease("kube-scheduler", timedelta(hours=1))).startswith("does not run: Lease ")


@pytest.mark.parametrize("backend", sorted(set(BUILT_INS) - {"default"}))
def test_of_another_scheduler_an_overdue_lease_proves_nothing(backend: str) -> None:
    found = said(backend, lease(f"{backend}-something", timedelta(hours=1)))
    assert found.startswith("not known whether it runs: Lease ")
    assert said(backend).startswith("not known whether it runs: no Lease has its name")
