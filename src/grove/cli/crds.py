"""`grove crds`: the CustomResourceDefinitions that the operator needs, ready for kubectl."""

from typing import Annotated

import typer

from grove.cli.talk import Form, emit


def crds(
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print them.")] = Form.YAML,
) -> None:
    """Print Grove's CustomResourceDefinitions.

    Install them with: grove crds | kubectl apply --server-side -f -

    YAML has one document for each; JSON is one List. Both can be piped into kubectl.
    """
    from grove.api.crd import definitions
    from grove.cli.listing import printed

    emit(printed(definitions(), output))
