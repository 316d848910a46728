"""`grove config`: check a configuration of the operator, show its defaults, explain its fields."""

from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.talk import Failed, Format, dumped, emit, say

if TYPE_CHECKING:
    from grove.cli.configuration import Examined
    from grove.meta import Manifest

app = typer.Typer(
    name="config",
    help="The operator's configuration: check, defaults, explain.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FormatOption = Annotated[Format | None, typer.Option("--output", "-o", help="Print as data.")]


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="OperatorConfiguration file, '-' for standard input.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Keys without effect are errors, not warnings.")
    ] = False,
    output: FormatOption = None,
) -> None:
    """Check a configuration file, without a cluster.

    Reads that of the Go operator too. Names everything that is wrong at once, each with its path, and the
    keys without effect. Exits with 1 if the operator would not start with it.
    """
    from grove.cli.configuration import examined

    found = examined(file)
    refused = [*found.errors, *(found.unread if strict else ())]
    if output is not None:
        emit(dumped(_as_data(found, valid=not refused), output))
    else:
        for error in found.errors:
            say(f"{file}: {error}")
        for key in found.unread:
            say(f"{file}: {key.field}: ignored, {key.message}")
    if refused:
        raise Failed(
            f"{file}: the operator would refuse it" if found.errors else f"{file}: has keys without effect"
        )
    if output is None:
        emit(f"{file}: valid; enabled schedulers: {', '.join(_enabled(found))}")


def _enabled(found: "Examined") -> list[str]:
    from grove.extensions import registry_for

    return [each.name for each in registry_for(found.configuration.scheduler).enabled]


def _as_data(found: "Examined", *, valid: bool) -> "Manifest":
    return {
        "valid": valid,
        "errors": [{"field": each.field, "message": each.message} for each in found.errors],
        "ignored": [{"field": each.field, "message": each.message} for each in found.unread],
    }


@app.command()
def defaults(
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print them.")] = Format.YAML,
) -> None:
    """Print the configuration that holds where no file is given.

    It is a whole file: change what should be different, and delete the rest.
    """
    import msgspec

    from grove.api.config import load

    emit(dumped(_without_nothing(msgspec.to_builtins(load(""))), output))


def _without_nothing(value: "Manifest") -> "Manifest":
    """A section without the fields that have no default: a null would say no more."""
    return {
        name: _without_nothing(item) if isinstance(item, dict) and item else item
        for name, item in value.items()
        if item is not None
    }


@app.command()
def explain(
    field: Annotated[
        str,
        typer.Argument(
            help="A field by its path, for example server.webhooks.port; all of them if omitted.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Say what a field of the configuration means, and its default.

    A section is shown with the fields below it.
    """
    from grove.cli.config_fields import described

    emit(described(field))
