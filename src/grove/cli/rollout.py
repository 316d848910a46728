"""`grove rollout`: how far the update of a set is, its earlier templates, and how to hold or undo it."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.options import ContextOption, KubeconfigOption
from grove.cli.talk import Failed, Format, dumped, emit, say

if TYPE_CHECKING:
    from grove.api.cliqueset import PodCliqueSet

app = typer.Typer(
    name="rollout",
    help="Updates of a set: status, history, pause, undo, restart.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SetArgument = Annotated[str, typer.Argument(metavar="SET", help="The PodCliqueSet.", show_default=False)]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace; the context's if omitted.", show_default=False)
]
OutputOption = Annotated[
    Format | None, typer.Option("--output", "-o", help="Print as data instead of as text.")
]


@app.command()
def status(
    name: SetArgument,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Wait until the update is finished; print each step of it."),
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0, help="With --watch: give up after so many seconds; 0 for never.")
    ] = 0,
    output: OutputOption = None,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show how far the update of a set is, and what it waits for.

    Says which replica has its turn and why it does not get on, and whether the update is paused or left to
    whoever deletes pods. --watch fails when time is up, the set is refused or deleted, or no server answers.
    """
    from grove.cli.loop import run_loop
    from grove.cli.rollout_cluster import follow, look
    from grove.cli.rollout_text import status_data, status_lines
    from grove.view.rollout import RolloutView, Stage

    def show(view: RolloutView) -> None:
        if output is None:
            emit("\n".join(status_lines(view, datetime.now(UTC))))

    where = (kubeconfig, context, namespace)
    last = run_loop(follow(where, name, show, timeout) if watch else look(where, name))
    if output is not None:
        emit(dumped(status_data(last), output))
    elif not watch:
        show(last)
    if not watch:
        return
    if last.stage is Stage.REFUSED:
        raise Failed(f"PodCliqueSet {last.key} is refused, so that no update goes on: {last.message}")
    if not last.finished:
        raise Failed(f"the update of PodCliqueSet {last.key} is not finished after {timeout:g} s")


@app.command()
def history(
    name: SetArgument,
    revision: Annotated[
        int | None,
        typer.Option(help="Show what `undo --to-revision` would change for this one.", show_default=False),
    ] = None,
    output: OutputOption = None,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """List a set's pod templates, and how many replicas follow each.

    The present one is marked; for the others the roles are named whose pods differ from it.
    """
    from grove.cli.loop import run_loop
    from grove.cli.rollout_cluster import read
    from grove.cli.rollout_text import difference, history_data, history_table
    from grove.plan.update.history import entry_of

    found = run_loop(read((kubeconfig, context, namespace), name))
    if revision is not None:
        entry = entry_of(found.entries, revision)
        lines = difference(found.cliqueset, entry)
        if lines:
            emit("\n".join(lines))
        else:
            say(f"grove: revision {revision} has the present pod templates")
        return
    if output is not None:
        emit(dumped(history_data(found.entries), output))
        return
    if not found.entries:
        say(f"grove: no template of PodCliqueSet {found.cliqueset.key} is recorded yet")
        return
    emit("\n".join(history_table(found.entries, datetime.now(UTC))))


@app.command()
def pause(
    name: SetArgument,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Keep an update from taking anything down until it is resumed.

    What is down already comes back; replicas that have not had their turn stay with their template.
    """
    from grove.cli.loop import run_loop
    from grove.cli.rollout_cluster import hold

    before = run_loop(hold((kubeconfig, context, namespace), name, paused=True))
    emit(f"{_named(before)} {'was paused already' if before.update_paused else 'paused'}")
    _warn_on_delete(before)


@app.command()
def resume(
    name: SetArgument,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Let a paused update go on."""
    from grove.cli.loop import run_loop
    from grove.cli.rollout_cluster import hold

    before = run_loop(hold((kubeconfig, context, namespace), name, paused=False))
    emit(f"{_named(before)} {'resumed' if before.update_paused else 'was not paused'}")


@app.command()
def undo(
    name: SetArgument,
    to_revision: Annotated[
        int | None,
        typer.Option(help="A number of `history`; the revision before the present one if omitted."),
    ] = None,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Put the pod templates of an earlier revision back into the set.

    Labels, annotations and pod specs of the roles; replicas, minima, the priority class and everything else
    stay as they are. What follows is an update like any other.
    """
    from grove.cli.loop import run_loop
    from grove.cli.rollout_cluster import Found, change
    from grove.meta import Manifest
    from grove.plan.update.history import entry_before, entry_of, undo_patch

    number = 0

    def plan(found: Found) -> list[Manifest]:
        nonlocal number
        entries = found.entries
        entry = entry_before(entries) if to_revision is None else entry_of(entries, to_revision)
        number = entry.number
        return undo_patch(found.manifest, entry)

    changed = run_loop(change((kubeconfig, context, namespace), name, plan))
    emit(f"{_named(changed)} rolled back to revision {number}")
    _tell_what_follows(changed)


@app.command()
def restart(
    name: SetArgument,
    clique: Annotated[
        list[str] | None,
        typer.Option(help="A role to restart, may be repeated; all of them if omitted.", show_default=False),
    ] = None,
    namespace: NamespaceOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Replace the pods of a set by an update that changes only a time.

    The time is written as an annotation into the pod templates, so that this goes replica by replica like any
    other update and can be watched, paused and undone.
    """
    from grove.cli.loop import run_loop
    from grove.cli.rollout_cluster import Found, change
    from grove.meta import Manifest
    from grove.plan.conditions import timestamp
    from grove.plan.update.history import restart_patch

    def plan(found: Found) -> list[Manifest]:
        known = [role.name for role in found.cliqueset.template.cliques]
        unknown = [each for each in clique or () if each not in known]
        if unknown:
            message = f"PodCliqueSet {found.cliqueset.key} has no role {', '.join(unknown)}"
            raise Failed(f"{message}; its roles: {', '.join(known)}")
        return restart_patch(found.manifest, clique or (), timestamp(datetime.now(UTC)))

    changed = run_loop(change((kubeconfig, context, namespace), name, plan))
    which = f": {', '.join(clique)}" if clique else ""
    emit(f"{_named(changed)} restarted{which}")
    _tell_what_follows(changed)


def _named(cliqueset: "PodCliqueSet") -> str:
    """A set as kubectl names what it has changed."""
    from grove.api import kinds

    return f"{kinds.CLIQUESETS.kind.lower()}.{kinds.CLIQUESETS.gvk.group}/{cliqueset.name}"


def _tell_what_follows(cliqueset: "PodCliqueSet") -> None:
    """Why no pod may be replaced now although a template was changed."""
    if cliqueset.update_paused and not cliqueset.on_delete:
        say(
            "grove: its updates are paused; nothing that serves is replaced before "
            f"`grove rollout resume {cliqueset.name}`"
        )
    _warn_on_delete(cliqueset)


def _warn_on_delete(cliqueset: "PodCliqueSet") -> None:
    if cliqueset.on_delete:
        say("grove: its strategy is OnDelete: a pod on a node takes a new template when you delete it")
