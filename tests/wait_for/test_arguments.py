"""The arguments are those of the Go operator's init container, and so are the texts of its errors."""

from pathlib import Path

import pytest

from grove.wait_for.arguments import BadArgument, parents_of, parse, server_of

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}

UNDERSTOOD = {
    "nothing": ([], {}),
    "one clique": (["llm-0-fe:2"], {"llm-0-fe": 2}),
    "several cliques, in their order": (["b:1", "a:3"], {"b": 1, "a": 3}),
    "blank entries are skipped": (["", "  ", "a:1"], {"a": 1}),
    "spaces are trimmed": (["  a :  2  "], {"a": 2}),
    "of a repeated name the last one counts": (["a:1", "b:1", "a:4"], {"a": 4, "b": 1}),
    "a number with a sign": (["a:+3"], {"a": 3}),
}

REFUSED = {
    "no colon": ("a", "expected two values per podclique, found 1"),
    "too many colons": ("a:b:c:3", "expected two values per podclique, found 4"),
    "no number": ("a:many", "failed to convert replicas to int"),
    "no number at all": ("a:", "failed to convert replicas to int"),
    "a number that only Python reads": ("a:1_000", "failed to convert replicas to int"),
    "digits of another script": ("a:٣", "failed to convert replicas to int"),
    "zero": ("a:0", "replica count must be positive, got 0"),
    "a negative number": ("a:-1", "replica count must be positive, got -1"),
    "no name": (" :1", "podclique name cannot be empty"),
}


@pytest.mark.parametrize(("entries", "want"), UNDERSTOOD.values(), ids=UNDERSTOOD)
def test_the_cliques_and_how_many_pods_each_needs(entries: list[str], want: dict[str, int]) -> None:
    assert parents_of(entries) == want
    assert list(parents_of(entries)) == list(want)


@pytest.mark.parametrize(("entry", "want"), REFUSED.values(), ids=REFUSED)
def test_a_bad_entry_is_refused_in_the_words_of_the_go_operator(entry: str, want: str) -> None:
    with pytest.raises(BadArgument, match=want):
        parents_of(["fine:1", entry])


def test_both_spellings_of_the_flag_and_the_places_of_a_pod() -> None:
    found = parse(["--podcliques=a:1", "-p", "b:2", "--podcliques", "c:3"], IN_A_POD)
    assert found.parents == {"a": 1, "b": 2, "c": 3}
    assert found.server == "https://10.0.0.1:6443"
    assert found.token == Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    assert found.authority == Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
    assert found.pod_info == Path("/var/grove/pod-info")
    assert found.termination_message == Path("/dev/termination-log")


def test_an_address_of_six_and_a_server_without_a_port() -> None:
    assert server_of({**IN_A_POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}) == "https://[fd00::1]:6443"
    assert server_of({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "https://10.0.0.1:443"


@pytest.mark.parametrize("arguments", [["--no-such-flag"], ["--podcliques"], ["stray"], ["--podclique=a:1"]])
def test_bad_usage_is_a_bad_argument_and_no_exit_code_two(arguments: list[str]) -> None:
    with pytest.raises(BadArgument):
        parse(arguments, IN_A_POD)


def test_outside_of_a_pod_it_says_so() -> None:
    with pytest.raises(BadArgument, match="KUBERNETES_SERVICE_HOST is not set"):
        parse(["-p", "a:1"], {})


def test_a_missing_or_empty_file_of_the_pod_is_named(tmp_path: Path) -> None:
    found = parse([f"--pod-info={tmp_path}"], IN_A_POD)
    with pytest.raises(BadArgument, match=f"{tmp_path}/namespace"):
        found.pod_fact("namespace")
    (tmp_path / "namespace").write_text("\n")
    with pytest.raises(BadArgument, match="is empty"):
        found.pod_fact("namespace")
    (tmp_path / "namespace").write_text("inf\n")
    assert found.pod_fact("namespace") == "inf"
