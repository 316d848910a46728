"""Writes counted from an API server's audit log."""

import json
from pathlib import Path

import pytest
from bench.audit import OPERATOR, AuditLog, counted

from grove.meta import Manifest


def entry(verb: str, resource: str, *, code: int = 200, uri: str = "/", **target: str) -> Manifest:
    return {
        "verb": verb,
        "requestURI": uri,
        "objectRef": {"resource": resource, **target},
        "responseStatus": {"code": code},
    }


CASES = {
    "a pod": (entry("create", "pods", code=201), "create pods"),
    "a status": (
        entry("patch", "podgangs", apiGroup="scheduler.grove.io", subresource="status"),
        "patch podgangs.scheduler.grove.io/status",
    ),
    "what was answered no": (entry("create", "pods", code=409), "refused"),
    "a dry run": (entry("create", "pods", code=201, uri="/api/v1/pods?dryRun=All"), ""),
    "a question": (
        entry("create", "selfsubjectaccessreviews", apiGroup="authorization.k8s.io", code=201),
        "",
    ),
}


@pytest.mark.parametrize(("seen", "want"), CASES.values(), ids=CASES)
def test_an_entry_counts_as_what_it_stored(seen: Manifest, want: str) -> None:
    assert counted(seen) == want


def line(verb: str) -> bytes:
    return json.dumps(entry(verb, "pods")).encode() + b"\n"


def test_the_log_is_read_on_from_where_it_was_and_a_half_written_line_waits(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    assert log.writes() == {}
    whole = line("patch")
    log.file.write_bytes(line("create") + whole[:20])
    assert log.writes() == {"create pods": 1}
    log.file.write_bytes(line("create") + whole + line("create"))
    assert log.writes() == {"create pods": 2, "patch pods": 1}
    log.forget()
    assert log.writes() == {}
    with log.file.open("ab") as more:
        more.write(line("delete"))
    assert log.writes() == {"delete pods": 1}


def test_only_the_operator_is_written_down(tmp_path: Path) -> None:
    arguments = AuditLog(tmp_path).arguments()
    name = next(each.partition("=")[2] for each in arguments if each.startswith("--audit-policy-file="))
    rules = json.loads(Path(name).read_text())["rules"]
    assert [(rule["level"], rule.get("users")) for rule in rules] == [
        ("Metadata", [OPERATOR]),
        ("None", None),
    ]
