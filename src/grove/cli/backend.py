"""`grove backend`: which scheduler backends there are, whether they keep the rules, and how to write one."""

from pathlib import Path
from typing import Annotated

import typer

from grove.cli.log_options import LogFormatOption, LogLevelOption, log_as
from grove.cli.options import ContextOption, KubeconfigOption
from grove.cli.talk import Failed, Form, Format, dumped, emit, say

app = typer.Typer(
    name="backend",
    help="Scheduler backends: list, check, write or run one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OutputOption = Annotated[
    Format | None, typer.Option("--output", "-o", help="Print as data instead of as a table.")
]


@app.command("list")
def list_(
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print them.")] = Form.WIDE,
) -> None:
    """List the built-in backends and those of installed packages.

    Capabilities are what a backend can honour on the best cluster that it is made for. A package whose
    backend cannot be used is named on standard error, with the reason.
    """
    from grove.cli.backend_listing import listed, table
    from grove.extensions import installed

    rows = listed()
    for each in installed():
        if each.problem:
            say(f"grove: not usable: {each.problem}")
    if output.data is not None:
        emit(dumped([each.data() for each in rows], output.data))
    else:
        emit("\n".join(str(each.data()["name"]) for each in rows) if output is Form.NAME else table(rows))


@app.command()
def check(
    name: Annotated[
        str, typer.Argument(help="The backend; all of them if omitted.", show_default=False)
    ] = "",
    config: Annotated[
        str | None,
        typer.Option(
            help="OperatorConfiguration whose profiles configure the backends on the cluster.",
            show_default=False,
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = None,
) -> None:
    """Check backends against the contract, a cluster against their needs.

    Runs the conformance kit; pytest is not needed. With --kubeconfig or --context it also asks that cluster
    for everything that the backend needs there; with neither it asks none, also where $KUBECONFIG is set.
    Fails if a rule is broken or cannot be checked, or if something is missing.
    """
    from grove.cli.backend_checking import checked, data, on_cluster, report
    from grove.cli.loop import run_loop
    from grove.cli.operating import configuration_from, warnings_about

    found = checked(name)
    if kubeconfig is not None or context is not None:
        configuration = configuration_from(config)
        for line in warnings_about(config, configuration):
            say(f"grove: {line}")
        found = run_loop(on_cluster(found, kubeconfig, context, configuration.scheduler))
    elif config is not None:
        raise typer.BadParameter("--config is about a cluster; give --kubeconfig or --context too")
    emit(report(found, every_rule=bool(name)) if output is None else dumped(data(found), output))
    if broken := [each.name for each in found if not each.passed]:
        raise Failed(f"failed: {', '.join(broken)}")


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="What the backend is to be called, for example acme.")],
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write, which must not exist; grove-NAME if omitted.", show_default=False
        ),
    ] = None,
) -> None:
    """Write the package of a new backend, with its entry points and test.

    The contract is filled in, and what it writes works: it passes its own conformance test and the linters
    as it is. Change it until it says what your scheduler understands.
    """
    from grove.cli.backend_skeleton import write

    folder = directory or Path(f"grove-{name}")
    for path in write(name, folder):
        emit(str(path))
    say(f"Next: python -m pip install -e {folder} && grove backend check {name}")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="The backend whose gangs this process acts on.")],
    config: Annotated[str, typer.Option(help="The operator's OperatorConfiguration file.")],
    health_port: Annotated[
        int | None,
        typer.Option(
            help="One port for probes and metrics; those of the configuration if omitted.", show_default=False
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", help="This process's namespace, for its Lease; the context's if omitted."
        ),
    ] = "",
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Act for one backend, in a process beside the operator.

    The profile of the backend must say `external: true` in the configuration that both of them read. Writes
    the scheduler's objects and the status of these gangs, and nothing else; elects a leader with a Lease of
    its own.
    """
    from grove.cli.loop import run_loop
    from grove.cli.operating import alone, configuration_from, serve, warnings_about

    configuration = alone(configuration_from(config), name, health_port)
    for line in warnings_about(config, configuration):
        say(f"grove: {line}")
    logs = log_as(log_level, log_format)
    logs(configuration)
    run_loop(serve(kubeconfig, context, configuration, namespace, path=config, only=name, log_as=logs))
