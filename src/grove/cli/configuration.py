"""Read the operator's configuration file: everything that is wrong with it at once, each with its path.

Knows what only shows when the parts are put together: which backends are installed, whether the times of a
lease fit. Asks no cluster.
"""

import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from grove.api.config import (
    NotYaml,
    OperatorConfiguration,
    examine,
    refusal,
    unknown_keys,
    without_effect,
)
from grove.errors import FieldError, InvalidConfiguration
from grove.extensions import registry_for, unread_keys
from grove.runtime.lease import LeaseTimes

_IMAGE_VARIABLE: Final = "GROVE_INIT_CONTAINER_IMAGE"


@dataclass(frozen=True, slots=True)
class Examined:
    """A configuration as far as it can be read, what is wrong with it, and what nobody reads."""

    configuration: OperatorConfiguration
    errors: tuple[FieldError, ...] = ()
    unread: tuple[FieldError, ...] = ()


def examined(path: str | None) -> Examined:
    """The configuration in a file (`-` for standard input), or the default one.

    Raises InvalidConfiguration only where there are no fields to speak of.
    """
    if path is None:
        return Examined(_with_environment(examine("")[0]))
    text = _text_of(path)
    try:
        configuration, errors = examine(text)
    except NotYaml as error:
        raise InvalidConfiguration(error.problem.at(_called(path))) from None
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{_called(path)}: {error}") from None
    configuration = _with_environment(configuration)
    errors += _misfits(configuration, {error.field for error in errors})
    unread = [*unknown_keys(text), *without_effect(configuration)]
    unread += [] if errors else _unread_in_profiles(configuration)
    return Examined(configuration, tuple(errors), tuple(unread))


def configuration_from(path: str | None) -> OperatorConfiguration:
    """The configuration in a file, or the default one; raises InvalidConfiguration that names every field."""
    found = examined(path)
    if found.errors:
        raise InvalidConfiguration(f"{path}: {refusal(found.errors)}", found.errors)
    return found.configuration


def warnings_about(path: str | None, configuration: OperatorConfiguration) -> list[str]:
    """A sentence for each key without effect in the file from which a configuration is."""
    if path is None:
        return []
    unread = [
        *unknown_keys(_text_of(path)),
        *without_effect(configuration),
        *_unread_in_profiles(configuration),
    ]
    return [f"{path}: {each.field}: ignored, {each.message}" for each in unread]


def _unread_in_profiles(configuration: OperatorConfiguration) -> list[FieldError]:
    scheduler = configuration.scheduler
    return list(unread_keys(registry_for(scheduler), scheduler))


def _misfits(configuration: OperatorConfiguration, named: Collection[str]) -> list[FieldError]:
    """What only shows when the parts are put together; not of fields that are named already."""
    found: list[FieldError] = []
    try:
        registry_for(configuration.scheduler)
    except InvalidConfiguration as error:
        told = error.errors or [FieldError("scheduler", str(error))]
        found += [each for each in told if each.field not in named]
    election = configuration.leader_election
    if election.enabled and not any(field.startswith("leaderElection") for field in named):
        try:
            LeaseTimes(election.lease_seconds, election.renew_seconds, election.retry_seconds)
        except ValueError as error:
            found.append(FieldError("leaderElection", str(error)))
    return found


def _with_environment(configuration: OperatorConfiguration) -> OperatorConfiguration:
    """What the operator's own environment decides, under the name that it has in the Go operator."""
    image = os.environ.get(_IMAGE_VARIABLE, "").strip()
    if not image:
        return configuration
    order = msgspec.structs.replace(configuration.startup_order, image=image)
    return msgspec.structs.replace(configuration, startup_order=order)


def _called(path: str) -> str:
    return "standard input" if path == "-" else path


def _text_of(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfiguration(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidConfiguration(f"{path}: is not text in UTF-8") from None
