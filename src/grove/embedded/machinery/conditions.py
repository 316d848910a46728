"""Match conditions of webhooks: CEL about `request`, `object` and `oldObject`.

`authorizer` is not there: an expression that uses it is refused when the webhook is configured.
"""

from __future__ import annotations

from functools import lru_cache

from grove.embedded.errors import Manifest
from grove.embedded.machinery.cel import Expression, environment, first_line


@lru_cache(1024)
def compiled(text: str) -> Expression:
    """Raises ValueError with the compiler's message."""
    try:
        expression: Expression = environment("request", "object", "oldObject").compile(text)
    except RuntimeError as error:
        raise ValueError(f"compilation failed: {first_line(error)}") from error
    return expression


def holds(text: str, known: Manifest) -> bool:
    """Whether a condition is true of what is known; ValueError if it has no answer."""
    result = compiled(text).eval(data=known).value()
    if result is True or result is False:
        return bool(result)
    raise ValueError(first_line(result))
