"""Where manifests come from (files, folders, URLs), and in which forms objects are printed."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from grove.cli import download
from grove.cli.talk import Refused

from .conftest import Grove


@contextmanager
def served(body: bytes, *, code: int = 200) -> Iterator[str]:
    """A server on the loopback that answers every request the same; its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/set.yaml")
                self.end_headers()
                return
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_folder_stands_for_its_manifests_and_several_sources_for_all_of_them(
    grove: Grove, examples: Path, tmp_path: Path
) -> None:
    for name in ("too-big.yaml", "prefill-decode.yaml"):
        (tmp_path / name).write_text((examples / name).read_text())
    (tmp_path / "notes.txt").write_text("not: {a manifest")
    folder = grove("render", "-f", str(tmp_path), "-o", "json")
    single = grove(
        "render",
        "-f",
        str(tmp_path / "prefill-decode.yaml"),
        "-f",
        str(tmp_path / "too-big.yaml"),
        "-o",
        "json",
    )
    assert folder.code == 0, folder.err
    assert json.loads(folder.out) == json.loads(single.out)


def test_a_folder_without_manifests_is_refused(grove: Grove, tmp_path: Path) -> None:
    ran = grove("render", "-f", str(tmp_path))
    assert ran.code == 1
    assert ran.err == f"{tmp_path}: is a folder without manifests (.yaml, .yml, .json)\n"


@pytest.mark.parametrize("path", ["/set.yaml", "/moved"])
def test_a_url_is_as_good_as_a_file(grove: Grove, examples: Path, path: str) -> None:
    file = examples / "prefill-decode.yaml"
    with served(file.read_bytes()) as address:
        ran = grove("render", "-f", f"{address}{path}", "-o", "name")
    assert ran.code == 0, ran.err
    assert ran.out == grove("render", "-f", str(file), "-o", "name").out


def test_a_url_that_cannot_be_had_is_one_sentence_without_its_password(grove: Grove) -> None:
    with served(b"gone", code=404) as address:
        url = f"{address.replace('//', '//me:secret@')}/set.yaml"
        ran = grove("render", "-f", url)
    assert ran.code == 1
    assert ran.err == f"{address}/set.yaml: the server answered 404 Not Found\n"
    unreachable = grove("render", "-f", "http://127.0.0.1:1/set.yaml")
    assert unreachable.err.startswith("http://127.0.0.1:1/set.yaml: cannot be fetched: ")
    assert len(unreachable.err.splitlines()) == 1


def test_what_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST_BYTES", 1 << 20)
    with served(b"x" * (2 << 20)) as address, pytest.raises(Refused, match="is larger than 1 MiB"):
        download.download(address)


def test_objects_are_printed_by_name_or_as_a_table(grove: Grove, examples: Path) -> None:
    file = str(examples / "prefill-decode.yaml")
    names = grove("render", "-f", file, "-o", "name").out.splitlines()
    assert "podgang.scheduler.grove.io/llm-0" in names
    assert any(name.startswith("pod/llm-0-router") for name in names)
    table = grove("render", "-f", file, "-o", "wide").out.splitlines()
    assert table[0].split() == ["NAMESPACE", "KIND", "NAME", "APIVERSION"]
    assert len(table) == len(names) + 1
    crds = grove("crds", "-o", "name").out.splitlines()
    assert "customresourcedefinition.apiextensions.k8s.io/podgangs.scheduler.grove.io" in crds
    assert grove("backend", "list", "-o", "name").out.splitlines()[:2] == ["default", "kai"]
