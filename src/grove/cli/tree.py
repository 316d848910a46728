"""`grove tree`: sets, gangs without a set and everything below them, as they are in a cluster now."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.options import ContextOption, KubeconfigOption
from grove.cli.talk import Failed, Form, dumped, emit, say

if TYPE_CHECKING:
    from grove.cli.connect import Reached
    from grove.view.model import Forest

OutputOption = Annotated[
    Form | None,
    typer.Option(
        "--output",
        "-o",
        help="wide: with ages, hostnames, zones and racks; name: names for kubectl; yaml, json: as data.",
    ),
]


def tree(
    name: Annotated[
        str | None, typer.Argument(help="The PodCliqueSet; all sets and gangs of the namespace if omitted.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace; the context's if omitted.")
    ] = "",
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Every namespace.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Draw again whenever something changes, until Ctrl-C.")
    ] = False,
    output: OutputOption = None,
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
    if watch and output not in (None, Form.WIDE):
        raise typer.BadParameter("--watch draws; it goes with -o wide only")
    wide = output is Form.WIDE
    where = None if all_namespaces else namespace
    if watch:
        from grove.cli.tree_watch import follow

        run_loop(follow(kubeconfig, context, where, name or "", wide=wide))
    else:
        _show(*run_loop(_look(kubeconfig, context, where, name or "", wide=wide)), output)


def _show(found: "Forest", where: str, output: Form | None) -> None:
    if output is not None and output.data is not None:
        emit(dumped(_as_list(found), output.data))
    elif not found.cliquesets and not found.gangs:
        say(f"grove: no PodCliqueSets and no PodGangs found{f' in namespace {where!r}' if where else ''}")
    else:
        emit(_names(found) if output is Form.NAME else drawn(found, wide=output is Form.WIDE))


def drawn(forest: "Forest", *, wide: bool = False) -> str:
    """The trees as text that this output can hold."""
    from grove.cli.treeview import lines, nodes

    try:
        "├─└│".encode(sys.stdout.encoding or "ascii")
        plain = False
    except UnicodeEncodeError:
        plain = True
    return "\n\n".join("\n".join(lines(each, plain=plain, wide=wide)) for each in nodes(forest))


def _as_list(forest: "Forest") -> dict[str, object]:
    from grove.cli.treeview import as_manifest, nodes

    return {"items": [as_manifest(each) for each in nodes(forest)]}


def _names(forest: "Forest") -> str:
    from grove.cli.treeview import names, nodes

    return "\n".join(dict.fromkeys(name for each in nodes(forest) for name in names(each)))


async def _look(
    kubeconfig: str | None, context: str | None, namespace: str | None, name: str, *, wide: bool
) -> "tuple[Forest, str]":
    """What was found, and in which namespace; blank for all of them."""
    from grove.cli.connect import connected

    async with connected(kubeconfig, context) as reached:
        where = "" if namespace is None else namespace or reached.connection.namespace
        return await seen(reached, where, name, wide=wide), where


async def seen(reached: "Reached", where: str, name: str, *, wide: bool) -> "Forest":
    """What there is now; raises Failed when a set that is named is not there."""
    from grove.cli.finding import find
    from grove.view.forest import forest

    world = await find(reached.client, where, name, nodes=wide)
    if name and not world.cliquesets:
        raise Failed(
            f"there is no PodCliqueSet {name!r} in namespace {where!r}; "
            "a NAME is that of a set, not of a gang or clique"
        )
    return forest(world, now=datetime.now(UTC))
