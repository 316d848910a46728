"""Servers under contract: the embedded one of each minor, or the one that GROVE_CONTRACT_KUBECONFIG names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from tests.contract import catalogue
from tests.contract.contract import Server
from tests.contract.serving import BARE, served

from grove.kube import config

KUBECONFIG = "GROVE_CONTRACT_KUBECONFIG"
MINOR = "GROVE_CONTRACT_MINOR"

Servers = Callable[[str], Server]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The server of a minor; started when the first check wants it, and shared by all of this process."""
    known: dict[str, Server] = {}
    with ExitStack() as stack:

        def server_of(minor: str) -> Server:
            if minor not in known:
                known[minor] = start(minor)
                asyncio.run(catalogue.prepare(known[minor]))
            return known[minor]

        def start(minor: str) -> Server:
            if path := os.environ.get(KUBECONFIG):
                if minor != os.environ.get(MINOR, catalogue.MAIN):
                    pytest.skip(f"${KUBECONFIG} is not a server of Kubernetes {minor} (see ${MINOR})")
                return Server(config.load(path), minor)
            folder = tmp_path_factory.mktemp(f"contract-{minor}")
            options = replace(BARE, kubernetes=minor)
            return stack.enter_context(served(folder / "kubeconfig", options)).server()

        yield server_of
