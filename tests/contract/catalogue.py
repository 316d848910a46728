"""Which checks there are, and how one is observed.

A check is a function `check_*` of a module in `checks/`; its name without `check_` is its name in the
goldens. To add one, write it and record its golden (see `record.py`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable

from tests.contract.checks import (
    access,
    admission,
    applying,
    autoscaling,
    custom,
    deletion,
    gangs,
    lists,
    patching,
    pods,
    webhook_configurations,
    webhooks,
    wire,
    writing,
)
from tests.contract.contract import Contract, Observation, Server, contract_on
from tests.contract.objects import gang_crd

Check = Callable[[Contract], Awaitable[Observation]]

MAIN = "1.36"
"""The minor that is asked unless another is named."""
MINORS = ("1.35", "1.36", "1.37")
ROOMS = (
    writing,
    patching,
    custom,
    deletion,
    pods,
    lists,
    applying,
    wire,
    admission,
    webhooks,
    webhook_configurations,
    access,
    gangs,
    autoscaling,
)
PREFIX = "check_"


def _checks() -> dict[str, Check]:
    return {
        name.removeprefix(PREFIX): value
        for module in ROOMS
        for name, value in vars(module).items()
        if name.startswith(PREFIX)
    }


CHECKS = _checks()
"""By name; every minor answers all of them, the gang API in its own way."""


async def prepare(server: Server) -> None:
    """What all checks of a server share: the custom kind that they try things on."""
    async with contract_on(server, _namespace()) as contract:
        await contract.define(gang_crd())


async def observe(check: Check, server: Server) -> Observation:
    """What a server answers to a check, without what differs from run to run."""
    namespace = _namespace()
    async with contract_on(server, namespace) as contract:
        observed = await check(contract)
    return json.loads(json.dumps(observed).replace(namespace, "NAMESPACE"))


def _namespace() -> str:
    return f"contract-{secrets.token_hex(4)}"
