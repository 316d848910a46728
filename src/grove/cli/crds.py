"""`grove crds`: the CustomResourceDefinitions that the operator needs, ready for kubectl."""

from typing import Annotated

import typer

from grove.cli.talk import Form, Format, dumped, emit


def crds(
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print them.")] = Form.YAML,
) -> None:
    """Print Grove's CustomResourceDefinitions.

    Install them with: grove crds | kubectl apply --server-side -f -

    YAML has one document for each; JSON is one List. Both can be piped into kubectl.
    """
    from grove.api.crd import definitions

    found = definitions()
    if output is Form.JSON:
        emit(dumped({"apiVersion": "v1", "kind": "List", "items": found}, Format.JSON))
    elif output is Form.YAML:
        emit("---\n".join(dumped(each, Format.YAML) for each in found))
    else:
        from grove.cli.listing import names, table

        emit(names(found) if output is Form.NAME else table(found))
