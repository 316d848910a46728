"""`grove crds`: the CustomResourceDefinitions that the operator needs, ready for kubectl."""

from typing import Annotated

import typer

from grove.cli.talk import Format, dumped, emit


def crds(
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print them.")] = Format.YAML,
) -> None:
    """Print Grove's CustomResourceDefinitions.

    Install them with: grove crds | kubectl apply -f -

    YAML has one document for each; JSON is one List. Both can be piped into kubectl.
    """
    from grove.api.crd import definitions

    found = definitions()
    if output is Format.JSON:
        emit(dumped({"apiVersion": "v1", "kind": "List", "items": found}, output))
    else:
        emit("---\n".join(dumped(each, output) for each in found))
