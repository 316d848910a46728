"""`grove run`: the operator, against the cluster of a kubeconfig or the one that it runs in."""

from typing import Annotated

import typer

from grove.cli.log_options import LogFormatOption, LogLevelOption, log_as
from grove.cli.options import ContextOption, KubeconfigOption
from grove.cli.talk import say


def run(
    config: Annotated[
        str | None, typer.Option(help="OperatorConfiguration file; defaults if omitted.", show_default=False)
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", help="The operator's own namespace, for its Lease; the context's if omitted."
        ),
    ] = "",
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Run the operator until it is told to stop.

    Serves every namespace. A change of the configuration file enables and disables schedulers without a
    restart. SIGTERM and SIGINT end it in order: work is finished, the lease is given back.
    """
    from grove.cli.loop import run_loop
    from grove.cli.operating import configuration_from, serve, warnings_about

    configuration = configuration_from(config)
    for line in warnings_about(config, configuration):
        say(f"grove: {line}")
    logs = log_as(log_level, log_format)
    logs(configuration)
    run_loop(serve(kubeconfig, context, configuration, namespace, path=config, log_as=logs))
