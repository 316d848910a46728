"""`grove upgrade plan`: what this version would do to a cluster and its sets, before it runs there."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from grove.cli.links import checked
from grove.cli.options import ContextOption, DocumentationOption, KubeconfigOption
from grove.cli.talk import Format, dumped, emit, say

if TYPE_CHECKING:
    from grove.api.config import OperatorConfiguration
    from grove.cli.doctoring.findings import Finding
    from grove.meta import Manifest
    from grove.plan.rehearsal import SetRehearsal

#: A set for another scheduler is then told as refused, which it may not be.
_DEFAULTS: Final = (
    "grove: no configuration of an installation can be read, so that sets are judged by the defaults, "
    "which enable default-scheduler alone; --config names the one that the operator will have"
)

app = typer.Typer(
    name="upgrade",
    help="Rehearse an upgrade, or the takeover from the Go operator.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def plan(
    name: Annotated[str | None, typer.Argument(help="The PodCliqueSet; all sets if omitted.")] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace; every namespace if omitted.")
    ] = "",
    output: Annotated[
        Format | None, typer.Option("--output", "-o", help="Print as data instead of as text.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="The OperatorConfiguration that the operator will have; the installation's if omitted.",
            show_default=False,
        ),
    ] = None,
    documentation_url: DocumentationOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Compare what runs with what this version would write.

    Writes nothing. Lists every object of each set that would be created, written or removed, with the
    fields, and every pod that would restart, with the field that is the reason. Tries a pod of each role by
    a dry run, and says what would be refused and why. Then says, as `grove doctor` does, what the upgrade
    stands on: definitions and the versions in which objects are stored, permissions, webhooks. Exits with 1
    if any pod would restart or be refused, or any set, or if one of these failed; with 0 otherwise.
    """
    from grove.cli.doctoring.findings import with_links
    from grove.cli.loop import run_loop
    from grove.cli.operating import configuration_from

    given = configuration_from(config) if config is not None else None
    base = checked(documentation_url, "--documentation-url")
    plan = run_loop(_look(kubeconfig, context, given, namespace, name or ""))
    _tell(replace(plan, findings=with_links(plan.findings, base)), output)
    if plan.broken or any(each.restarts or each.refused or each.no_pods for each in plan.sets):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Plan:
    """What would become of the sets, and what of the cluster the upgrade stands on."""

    findings: "Sequence[Finding]"
    sets: "Sequence[SetRehearsal]" = ()
    #: Whether the sets could be looked at: not where their definitions are missing.
    rehearsed: bool = True

    @property
    def broken(self) -> int:
        """How many findings say that the upgrade would fail."""
        return sum(each.state == "failed" for each in self.findings)


def _tell(plan: Plan, output: Format | None) -> None:
    from grove.cli.doctor import lines as found

    if output is not None:
        told = [each.as_manifest() for each in plan.findings]
        emit(dumped({"items": [as_manifest(each) for each in plan.sets], "findings": told}, output))
    else:
        if plan.rehearsed and not plan.sets:
            say("grove: no PodCliqueSets found")
        sections = ["\n".join(lines(each)) for each in plan.sets]
        emit("\n\n".join([*sections, found(plan.findings)]))
    say(f"grove: {', '.join(_summary(plan))}")


def _summary(plan: Plan) -> Iterator[str]:
    from grove.words import counted

    if plan.rehearsed:
        restarts = sum(len(each.restarts) for each in plan.sets)
        yield f"{restarts} of {sum(each.pods for each in plan.sets)} pods on nodes would restart"
    else:
        yield "sets cannot be looked at before their definitions are there"
    refused = sum(bool(each.refused or each.no_pods) for each in plan.sets)
    if refused:
        yield counted(
            refused, "set or its new pods would be refused", "sets or their new pods would be refused"
        )
    if plan.broken:
        yield f"{plan.broken} of {len(plan.findings)} checks failed"


async def _look(
    kubeconfig: str | None,
    context: str | None,
    given: "OperatorConfiguration | None",
    namespace: str,
    name: str,
) -> Plan:
    from grove.cli.connect import connected
    from grove.cli.doctoring.definitions import undefined
    from grove.cli.doctoring.examination import Asked, before_upgrade
    from grove.cli.operating import configuration_from
    from grove.cli.rehearsing import rehearse
    from grove.cli.talk import Failed

    asyncio.get_running_loop().set_exception_handler(_unless_closed)
    async with connected(kubeconfig, context) as reached:
        server = reached.connection.server
        asked = Asked(reached.client, server, lambda: datetime.now(UTC), configuration=given)
        footing = await before_upgrade(asked)
        if await undefined(reached.client):
            return Plan(footing.findings, rehearsed=False)
        configuration = footing.configuration or configuration_from(None)
        found = await rehearse(reached.client, configuration, namespace, name)
    if found and footing.configuration is None:
        say(_DEFAULTS)
    if name and not found:
        where = f" in namespace {namespace!r}" if namespace else ""
        raise Failed(f"there is no PodCliqueSet {name!r}{where}")
    return Plan(footing.findings, found)


def _unless_closed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell what nobody handles, but for the answers to watches that are given up once everything is read."""
    if "SSL protocol" not in context.get("message", ""):
        loop.default_exception_handler(context)


def lines(found: "SetRehearsal") -> Iterator[str]:
    """What would happen to one set, line by line."""
    from grove.words import counted

    restarts = f"{len(found.restarts)} of {found.pods} pods on nodes would restart"
    if found.refused:
        yield f"PodCliqueSet {found.key}  would be refused; what runs goes on  {restarts}"
        yield from (f"  refuse   {each}" for each in found.refused)
        yield from (f"  notice   {each}" for each in found.notices)
        return
    written = counted(len(found.changes), "object would be written", "objects would be written")
    yield f"PodCliqueSet {found.key}  {written}  {restarts}"
    for change in found.changes:
        fields = f": {', '.join(change.fields)}" if change.fields else ""
        yield f"  {change.verb:8} {change.kind} {change.name}{fields}"
    for end in found.ends:
        yield f"  {'restart' if end.restarts else 'replace':8} pod {end.name}: {end.reason}"
    yield from (f"  no pods  {each}" for each in found.no_pods)
    yield from (f"  notice   {each}" for each in found.notices)


def as_manifest(found: "SetRehearsal") -> "Manifest":
    """The same as data."""
    return {
        "namespace": found.key.namespace,
        "name": found.key.name,
        "podsOnNodes": found.pods,
        "refused": list(found.refused),
        "podsRefused": list(found.no_pods),
        "notices": list(found.notices),
        "changes": [
            {"verb": str(each.verb), "kind": each.kind, "name": each.name, "fields": list(each.fields)}
            for each in found.changes
        ],
        "restarts": [{"pod": each.name, "reason": each.reason} for each in found.restarts],
        "replaced": [{"pod": each.name, "reason": each.reason} for each in found.ends if not each.restarts],
    }
