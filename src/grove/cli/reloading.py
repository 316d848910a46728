"""Follow the configuration file: backends are enabled and disabled without a restart.

The file is read again from time to time rather than watched, because a mounted ConfigMap changes by swapping
links underneath it. A configuration that is wrong is refused as a whole, in one sentence, and the old one
stays in force until the file is mended. What is safe takes effect at once: `scheduler`, the logs, the limits
of the client. The rest needs a restart, and that is said.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from grove.api.config import OperatorConfiguration
from grove.assembly import Operator
from grove.cli.operating import configuration_from, warnings_about
from grove.controllers import events
from grove.errors import InvalidConfiguration
from grove.runtime.events import EventTarget

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
#: Sections that are in force as soon as they are read.
_TUNED: Final = frozenset({"logLevel", "logFormat", "runtimeClientConnection"})
#: The last one is never in force: it is the Go operator's.
_AT_ONCE: Final = _TUNED | {"scheduler", "debugging"}


class ConfigurationFile:
    """The file that an operator was started with, and what is in force of it."""

    def __init__(
        self,
        path: str,
        operator: Operator,
        configuration: OperatorConfiguration,
        *,
        about: EventTarget | None = None,
        applied: Callable[[OperatorConfiguration], Awaitable[None]] | None = None,
        tune: Callable[[OperatorConfiguration], None] | None = None,
    ) -> None:
        self.in_force = configuration
        self._path = path
        self._operator = operator
        #: What events are about: the operator's own pod; None outside of a cluster, where the log must do.
        self._about = about
        self._applied = applied
        #: Brings logs and limits in line with a configuration.
        self._tune = tune
        self._seen = self._text()
        self._outcomes = operator.metrics.counter("grove_configuration_changes_total")

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Read the file; if it has changed, bring it into force or say why not."""
        text = self._text()
        if text == self._seen:
            return
        self._seen = text
        try:
            configuration = configuration_from(self._path)
            for line in warnings_about(self._path, configuration):
                log.warning("the new configuration has a key without effect", extra={"key": line})
            await self._apply(configuration)
        except InvalidConfiguration as refusal:
            self._outcomes.labels("refused").inc()
            log.error(
                "the new configuration is refused; the old one stays in force", extra={"error": str(refusal)}
            )
            if self._about is not None:
                self._operator.own_events.send(events.configuration_refused(self._about, str(refusal)))

    async def _apply(self, configuration: OperatorConfiguration) -> None:
        differing = _differing(self.in_force, configuration)
        if later := [name for name in differing if name not in _AT_ONCE]:
            log.warning("takes effect after a restart", extra={"fields": later})
        if self._tune is not None and any(name in _TUNED for name in differing):
            self._tune(configuration)
        if configuration.scheduler != self.in_force.scheduler:
            await self._operator.reconfigure(configuration)
            if self._applied is not None:
                await self._applied(configuration)
            enabled = ", ".join(each.name for each in self._operator.scheduling.registry.enabled)
            log.info("the new configuration is in force", extra={"backends": enabled})
            if self._about is not None:
                told = f"the new configuration is in force; enabled: {enabled}"
                self._operator.own_events.send(events.configuration_applied(self._about, told))
        self._outcomes.labels("applied").inc()
        self.in_force = configuration

    def _text(self) -> str | None:
        """What the file holds; None while it cannot be read, which is a change like any other."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return Path(self._path).read_text(encoding="utf-8")
        return None


def _differing(old: OperatorConfiguration, new: OperatorConfiguration) -> list[str]:
    """The sections in which two configurations differ, as they are called in the file."""
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    return [name for name in after if before.get(name) != after[name]]
