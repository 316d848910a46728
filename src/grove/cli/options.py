"""Options that several commands share."""

from typing import Annotated

import typer

KubeconfigOption = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        help="Kubeconfig file; otherwise $KUBECONFIG, the pod's own account, or ~/.kube/config.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context", help="Context of the kubeconfig; its current one if omitted.", show_default=False
    ),
]
DocumentationOption = Annotated[
    str,
    typer.Option(
        "--documentation-url",
        envvar="GROVE_DOCUMENTATION_URL",
        help="Address that is put before every link to the documentation.",
        show_default=False,
    ),
]
