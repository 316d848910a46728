"""Lets tests of this folder be coroutines, and makes the certificates that they need."""

import asyncio
import inspect
from pathlib import Path

import pytest
from tests.kube.pki import Pki, make_pki


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on an event loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """An authority, a server's and a client's certificate."""
    return make_pki(Path(tmp_path_factory.mktemp("pki")))
