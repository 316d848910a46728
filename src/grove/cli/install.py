"""`grove install`: everything that runs the operator in a cluster, as manifests for kubectl."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.talk import Failed, Form, emit

if TYPE_CHECKING:
    from grove.meta import Manifest


def install(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the operator.")
    ] = "grove-system",
    values: Annotated[
        list[str] | None,
        typer.Option("--values", "-f", help="A file of values, as for the Helm chart; may be repeated."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One value, such as image.tag=0.1.0; may be repeated."),
    ] = None,
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print them.")] = Form.YAML,
) -> None:
    """Print every object of an installation, without a cluster.

    Install or upgrade with: grove install | kubectl apply --server-side -f -

    Remove it with: grove install | kubectl delete --ignore-not-found -f -  (every set and its pods go with
    the definitions; with --set crds.install=false they stay). The values are those of the Helm chart, and so
    are the objects.
    """
    from grove.cli.listing import printed
    from grove.cli.manifests.installation import desired_installation, desired_namespace
    from grove.cli.manifests.values import settings, values_from

    documents = [_read(each) for each in values or ()]
    chosen = values_from(*documents, settings(set_ or ()))
    found = [desired_namespace(namespace), *desired_installation(chosen, namespace)]
    emit(printed(found, output))


def _read(path: str) -> "Manifest":
    from grove.cli.manifests.values import parsed

    try:
        return parsed(Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        raise Failed(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failed(f"{path}: is not text in UTF-8") from None
