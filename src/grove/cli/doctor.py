"""`grove doctor`: what of a cluster and of the operator in it is not as it should be, and what to do."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grove.cli.links import checked
from grove.cli.options import ContextOption, DocumentationOption, KubeconfigOption
from grove.cli.talk import Failed, Format, dumped, emit

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from grove.api.config import OperatorConfiguration
    from grove.cli.doctoring.findings import Finding
    from grove.meta import Manifest


def doctor(
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", help="The operator's namespace; looked for if omitted.", show_default=False
        ),
    ] = "",
    config: Annotated[
        str | None,
        typer.Option(help="OperatorConfiguration file; the installation's if omitted.", show_default=False),
    ] = None,
    output: Annotated[
        Format | None, typer.Option("--output", "-o", help="Print as data instead of as lines.")
    ] = None,
    documentation_url: DocumentationOption = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Check a cluster and the operator in it, and say what to do.

    Looks at the API server, its clock and feature gates, Grove's definitions, permissions, webhooks and their
    certificates, the operator, what each scheduler needs and whether it runs. Writes nothing: fields are
    tried by dry runs. What you may not see is said and is no failure. Exits with 1 if something failed.
    """
    from grove.cli.operating import configuration_from
    from grove.runtime import logs

    logs.configure(level="error", format="text")
    base = checked(documentation_url, "--documentation-url")
    configuration = configuration_from(config) if config is not None else None
    _tell(_examined(kubeconfig, context, namespace, configuration), base, output)


def _tell(examined: "Coroutine[Any, Any, list[Finding]]", base: str, output: Format | None) -> None:
    """Print what is found; raises Failed if anything failed."""
    from grove.cli.doctoring.findings import State, with_links
    from grove.cli.loop import run_loop
    from grove.errors import ApiError

    try:
        found = with_links(run_loop(examined), base)
    except (Failed, ApiError) as error:
        if output is not None:
            # A program reads standard output, and must not take an outage for a mistake of its own.
            emit(dumped(_as_data(with_links([_unanswered(error)], base)), output))
        raise
    emit(lines(found) if output is None else dumped(_as_data(found), output))
    if broken := [each for each in found if each.state is State.FAILED]:
        raise Failed(f"{len(broken)} of {len(found)} checks failed")


async def _examined(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    configuration: "OperatorConfiguration | None",
) -> "list[Finding]":
    from grove.cli.connect import connected
    from grove.cli.doctoring.examination import Asked, examine
    from grove.errors import Unreachable

    async with connected(kubeconfig, context) as reached:
        server = reached.connection.server
        asked = Asked(reached.client, server, lambda: datetime.now(UTC), namespace, configuration)
        try:
            return await examine(asked)
        except Unreachable as error:
            raise Failed(f"cannot reach the API server {server}: {error}") from None


def _unanswered(error: Exception) -> "Finding":
    """The only finding where the API server says nothing, or nothing of use."""
    from grove.cli.doctoring.findings import failed

    said = " ".join(str(error).split())
    fix = "see whether its address, your credentials and the network are right, and whether it runs"
    return failed("api server", said, fix=fix, link="docs/guides/troubleshooting.md#what-grove-doctor-says")


def lines(found: "Sequence[Finding]") -> str:
    """One line for each finding, what to do included."""
    checks = max(len(each.check) for each in found)
    lines = []
    for each in found:
        fix = f"; fix: {each.fix}" if each.fix else ""
        link = f" ({each.link})" if each.link else ""
        lines.append(f"{each.state.value:8} {each.check:{checks}}  {each.message}{fix}{link}")
    return "\n".join(lines)


def _as_data(found: "Sequence[Finding]") -> "Manifest":
    from collections import Counter

    return {
        "summary": dict(Counter(str(each.state) for each in found)),
        "findings": [each.as_manifest() for each in found],
    }
