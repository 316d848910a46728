"""`grove render`: what the operator would create for a set, without a cluster.

One List on standard output, whole or not at all. Items are ordered by set (as in the files), then by backend
(`default`, `kai`, ...), then as they must exist: topology, services, gangs each followed by its scheduler's
objects, cliques, pods. With `--backend all` every item carries the annotation
`grove.io/scheduler-backend` that says whose it is, because several backends then speak of the same names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.talk import Failed, Form, Format, Refused, dumped, emit, say
from grove.words import counted

if TYPE_CHECKING:
    from grove.cli.documents import Document
    from grove.cli.given import Given
    from grove.cli.rendering import Judged, Rendering
    from grove.meta import Manifest

ALL = "all"


class Minor(StrEnum):
    """The Kubernetes minors whose native gang API we speak."""

    V135 = "1.35"
    V136 = "1.36"
    V137 = "1.37"
    NONE = "none"


def render(
    file: Annotated[
        list[str],
        typer.Option(
            "--file",
            "-f",
            help="File, folder or URL with PodCliqueSets, '-' for standard input; also several.",
        ),
    ],
    backend: Annotated[
        str,
        typer.Option(help="Scheduler backend, or 'all' to compare them; the set's own choice if omitted."),
    ] = "",
    kubernetes: Annotated[
        Minor, typer.Option(help="Whose native gang API to use; 'none' for a cluster without one.")
    ] = Minor.V136,
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print.")] = Form.YAML,
) -> None:
    """Show what a PodCliqueSet becomes, without a cluster.

    Prints every object that would exist: services, gangs, the scheduler's objects, cliques and gated pods.

    The files may also hold what the sets depend on: ClusterTopologyBindings, ResourceClaimTemplates and the
    OperatorConfiguration, without which every backend is enabled. Other kinds are ignored. What a scheduler
    cannot express, and what is not shown because an object is not given, is told on standard error and, in
    YAML, as comments. UIDs, and the parts of names that are made of them, are placeholders.
    """
    from grove.cli.documents import read
    from grove.cli.given import given_in

    _check_backend(backend)
    documents = read(file)
    given = given_in(documents)
    if backend not in ("", ALL) and given.registry().find(backend) is None:
        raise Failed(f"{backend!r} is not enabled in the given OperatorConfiguration")
    sections = _sections(documents, given, backend, kubernetes.value)
    for section in sections:
        for line in section.notes:
            say(line)
    emit(_as_text(sections, output, kubernetes.value))


def _check_backend(backend: str) -> None:
    from grove.cli.given import Given
    from grove.extensions import installed

    known = Given().registry()
    if backend in ("", ALL) or known.find(backend) is not None:
        return
    if broken := [each.problem for each in installed() if each.problem and each.name == backend]:
        raise Failed(broken[0])
    names = ", ".join(each.name for each in known.enabled)
    raise typer.BadParameter(f"{backend!r} is not a scheduler backend; known backends: {names}, and {ALL}")


@dataclass(frozen=True, slots=True)
class Section:
    """What one backend makes of one set, or why it makes nothing of it."""

    title: str
    notes: tuple[str, ...]
    objects: "tuple[Manifest, ...]" = ()


def _sections(documents: "Sequence[Document]", given: "Given", backend: str, minor: str) -> list[Section]:
    """Everything to print; raises Refused with every mistake in every set before anything is printed."""
    from grove.cli.given import is_ours
    from grove.errors import InvalidInput

    sets = [each for each in documents if is_ours(each, "PodCliqueSet")]
    if not sets:
        others = counted(len(documents), "object")
        raise Failed(f"nothing to render: found {others}, none of them a PodCliqueSet of grove.io/v1alpha1")
    sections: list[Section] = []
    refusals: list[str] = []
    for document in sets:
        try:
            sections += _sections_of(document, given, backend, minor)
        except InvalidInput as error:
            refusals += [f"{document.place}: {each}" for each in error.errors]
    if refusals:
        raise Refused(refusals)
    return sections


def _sections_of(document: "Document", given: "Given", backend: str, minor: str) -> list[Section]:
    from grove.cli import rendering

    if backend == ALL:
        return _compared(document, given, minor)
    judged = rendering.judge_manifest(document.manifest, given, rendering.cluster(minor), backend)
    return [_section(document, judged, rendering.render_set(judged))]


def _compared(document: "Document", given: "Given", minor: str) -> list[Section]:
    """One section for each backend; one that refuses the set says why, unless all of them do."""
    from grove.api import labels
    from grove.cli import rendering
    from grove.errors import InvalidInput

    sections: list[Section] = []
    refusals: list[InvalidInput] = []
    for each in given.registry().enabled:
        try:
            judged = rendering.judge_manifest(document.manifest, given, rendering.cluster(minor), each.name)
            rendered = rendering.render_set(judged)
        except InvalidInput as error:
            refusals.append(error)
            notes = tuple(f"{document.place}: {each.name} refuses the set: {why}" for why in error.errors)
            sections.append(Section(_title(document.manifest, each.name), notes))
            continue
        marked = tuple(_annotated(item, labels.SCHEDULER_BACKEND, each.name) for item in rendered.objects)
        section = _section(document, judged, rendered)
        sections.append(Section(section.title, section.notes, marked))
    if len(refusals) == len(sections):
        # What every backend says is said once.
        raise InvalidInput(list(dict.fromkeys(why for error in refusals for why in error.errors)))
    return sections


def _section(document: "Document", judged: "Judged", rendered: "Rendering") -> Section:
    notes = [f"{document.place}: warning: {each}" for each in judged.notices]
    notes += [f"{document.place}: {rendered.backend}: {each}" for each in rendered.losses]
    return Section(_title(document.manifest, rendered.backend), tuple(notes), rendered.objects)


def _title(manifest: "Manifest", backend: str) -> str:
    metadata = manifest["metadata"]
    key = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
    return f"PodCliqueSet {key} with scheduler backend {backend}"


def _annotated(manifest: "Manifest", key: str, value: str) -> "Manifest":
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), key: value}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _as_text(sections: Sequence[Section], output: Form, minor: str) -> str:
    from grove.cli.listing import names, table

    if output is Form.YAML:
        return _as_yaml(sections, minor)
    if output is Form.JSON:
        return _as_json(sections)
    items = [item for section in sections for item in section.objects]
    return names(items) if output is Form.NAME else table(items)


def _as_json(sections: Sequence[Section]) -> str:
    items = [item for section in sections for item in section.objects]
    return dumped({"apiVersion": "v1", "kind": "List", "items": items}, Format.JSON)


def _as_yaml(sections: Sequence[Section], minor: str) -> str:
    """A List whose sections are introduced by comments."""
    offer = "no native gang API" if minor == "none" else f"the native gang API of Kubernetes {minor}"
    lines = [f"# What Grove would create, given {offer}. UIDs are placeholders.\n"]
    lines.append("apiVersion: v1\nkind: List\n")
    count = sum(len(section.objects) for section in sections)
    lines.append("items:\n" if count else "items: []\n")
    for section in sections:
        lines.append(f"# {section.title}\n")
        lines += [f"# {' '.join(note.split())}\n" for note in section.notes]
        lines += [dumped([item], Format.YAML) for item in section.objects]
    return "".join(lines)
