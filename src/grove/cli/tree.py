"""`grove tree`: sets, gangs without a set and everything below them, as they are in a cluster now."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.options import ContextOption, KubeconfigOption
from grove.cli.talk import Failed, Format, dumped, emit, say

if TYPE_CHECKING:
    from grove.view.model import Forest


def tree(
    name: Annotated[
        str | None, typer.Argument(help="The PodCliqueSet; all sets and gangs of the namespace if omitted.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace; the context's if omitted.")
    ] = "",
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Every namespace.")] = False,
    output: Annotated[
        Format | None, typer.Option("--output", "-o", help="Print as data instead of as a drawing.")
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show sets and gangs with their cliques and pods, and why not.

    Each gang comes with its scheduler's objects, each pod with its node; a gang that does not run and a
    container that cannot run say why.
    """
    from grove.cli.loop import run_loop

    if name and all_namespaces:
        raise typer.BadParameter("a NAME and --all-namespaces exclude each other")
    found, where = run_loop(_look(kubeconfig, context, None if all_namespaces else namespace, name or ""))
    if output is not None:
        emit(dumped(_as_list(found), output))
        return
    if not found.cliquesets and not found.gangs:
        say(f"grove: no PodCliqueSets and no PodGangs found{f' in namespace {where!r}' if where else ''}")
        return
    emit(drawn(found))


def drawn(forest: "Forest") -> str:
    """The trees as text that this output can hold."""
    from grove.cli.treeview import lines, nodes

    try:
        "├─└│".encode(sys.stdout.encoding or "ascii")
        plain = False
    except UnicodeEncodeError:
        plain = True
    return "\n\n".join("\n".join(lines(each, plain=plain)) for each in nodes(forest))


def _as_list(forest: "Forest") -> dict[str, object]:
    from grove.cli.treeview import as_manifest, nodes

    return {"items": [as_manifest(each) for each in nodes(forest)]}


async def _look(
    kubeconfig: str | None, context: str | None, namespace: str | None, name: str
) -> "tuple[Forest, str]":
    """What was found, and in which namespace; blank for all of them."""
    from grove.cli.connect import connected
    from grove.cli.finding import find
    from grove.view.forest import forest

    async with connected(kubeconfig, context) as reached:
        where = "" if namespace is None else namespace or reached.connection.namespace
        world = await find(reached.client, where, name)
    if name and not world.cliquesets:
        raise Failed(
            f"there is no PodCliqueSet {name!r} in namespace {where!r}; "
            "a NAME is that of a set, not of a gang or clique"
        )
    return forest(world, now=datetime.now(UTC)), where
