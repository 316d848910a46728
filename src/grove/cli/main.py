"""The `grove` command: its list of commands, and how a failure becomes a sentence and an exit code.

`main` returns 0 when all is well, 1 when something was refused or failed, 2 when it was used wrongly. A
failure of ours or of the cluster is one sentence on standard error, never a traceback. Command modules import
what they need when they run: `grove --help` loads nothing of the operator.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from grove.cli import (
    backend,
    bundle,
    completion,
    config,
    crds,
    demo,
    doctor,
    install,
    render,
    rollout,
    run,
    tree,
    up,
    upgrade,
    usage,
    version,
    wait_for,
)
from grove.cli.plain import plainly

#: What a shell asks; see `completing`.
_COMPLETE: Final = "__complete"

app = typer.Typer(
    name="grove",
    help="Schedule multi-role AI workloads all-or-nothing, with whatever scheduler the cluster runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command()(render.render)
app.command()(crds.crds)
app.command()(install.install)
app.command()(tree.tree)
app.command()(run.run)
app.command()(up.up)
app.command()(demo.demo)
app.command()(doctor.doctor)
app.command()(bundle.bundle)
app.add_typer(rollout.app)
app.add_typer(backend.app)
app.add_typer(config.app)
app.add_typer(upgrade.app)
# It reads its arguments itself, as it does where this command is not installed.
app.command(
    "wait-for",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)(wait_for.wait_for)
app.command()(completion.completion)
app.command()(version.version)
usage.show_examples(app)


@app.callback()
def everything(
    version_: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=version.show, is_eager=True),
    ] = False,
) -> None:
    """Schedule multi-role AI workloads all-or-nothing, with whatever scheduler the cluster runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and say how it went."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [_COMPLETE]:
        from grove.cli.completing import answer

        print("\n".join(answer(words[1:]).lines()))
        return 0
    options = plainly(run.run, words[1:]) if words[:1] == ["run"] else None
    try:
        if options is not None:
            run.run(**options)
            return 0
        code = app(args=words, standalone_mode=False, prog_name=_called())
    except typer.Abort:
        return 130
    except typer.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:
        # Whoever read our output (head, less) has seen enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _failed(error)
    return code if isinstance(code, int) else 0


def _called() -> str:
    """What people type: kubectl finds its plugins by the names of their programs."""
    return "kubectl grove" if Path(sys.argv[0]).name == "kubectl-grove" else "grove"


def _failed(error: Exception) -> int:
    """Say what failed; anything that is not a known kind of failure is a defect and keeps its traceback."""
    from grove.cli.talk import Refused, say
    from grove.errors import GroveError

    if hasattr(error, "format_message"):
        # Bad usage; every one of them can show itself and knows its exit code.
        show, code = getattr(error, "show", None), getattr(error, "exit_code", 2)
        if show is not None:
            show()
        return int(code)
    if isinstance(error, Refused):
        for line in error.lines:
            say(line)
        return 1
    if isinstance(error, GroveError):
        say(f"grove: {error}")
        return 1
    raise error


if __name__ == "__main__":
    sys.exit(main())
