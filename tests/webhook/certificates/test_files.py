"""Certificates that somebody else provides: files that come, change as a kubelet changes them, and are wrong."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.webhook.certificates.handshakes import NAME, refusal

from grove.api.config import WebhookServer
from grove.runtime.metrics import Metrics
from grove.webhook.certificates.files import CertificateFiles
from grove.webhook.certificates.inspection import certificates_in
from grove.webhook.certificates.material import Material
from grove.webhook.certificates.plan import Situation, plan_material
from grove.webhook.certificates.provision import server_names
from grove.webhook.certificates.telling import measured_by
from grove.webhook.serving import ServingCertificate

NAMES = server_names("grove-system")
NOW = datetime(2031, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class Clock:
    time: datetime = NOW

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


def material(now: datetime = NOW, names: tuple[str, ...] = NAMES) -> Material:
    return plan_material(Situation(now, names, None)).material


@dataclass
class Folder:
    """A folder, what is served from it, and what was told."""

    path: Path
    clock: Clock = field(default_factory=Clock)
    served: list[ServingCertificate] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.source = CertificateFiles(self.path, NAMES, clock=self.clock)
        self.source.subscribe(self.served.append)
        self.source.subscribe(measured_by(self.metrics))
        self.source.report_to(self.told.append)

    def write(self, found: Material) -> None:
        self.path.mkdir(exist_ok=True)
        for name, text in (("tls.crt", found.chain), ("tls.key", found.key), ("ca.crt", found.ca)):
            (self.path / name).write_bytes(text)

    def swap(self, version: str, found: Material) -> None:
        """A new version of a mounted Secret, as a kubelet brings it in: files aside, then one link."""
        aside = self.path / f"..{version}"
        aside.mkdir(parents=True)
        for name, text in (("tls.crt", found.chain), ("tls.key", found.key), ("ca.crt", found.ca)):
            (aside / name).write_bytes(text)
            link = self.path / name
            if not link.is_symlink():
                link.symlink_to(Path("..data", name))
        new = self.path / "..data_tmp"
        new.symlink_to(aside.name)
        new.replace(self.path / "..data")


GOOD, NEXT = material(), material()

WRONG = {
    "no files": (None, "tls.crt is missing or empty"),
    "an empty key": (replace(GOOD, key=b""), "tls.key is missing or empty"),
    "no certificate": (replace(GOOD, chain=b"hello"), "tls.crt is not a certificate in PEM"),
    "no key": (replace(GOOD, key=b"hello"), "tls.key is not a private key in PEM without a password"),
    "the key of another": (replace(GOOD, key=NEXT.key), "tls.key is not the key of tls.crt"),
    "an expired certificate": (material(NOW - 365 * DAY), "tls.crt expired at 2031-05-01T00:00:00Z"),
    "one that begins tomorrow": (material(NOW + 2 * DAY), "tls.crt is not valid before 2031-05-02T23:00:00Z"),
    "one of another service": (
        material(names=("grove.other.svc",)),
        f"tls.crt is not valid for {NAME}: it lacks that name among its subjectAltNames",
    ),
}


@pytest.mark.parametrize(("found", "want"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, found: Material | None, want: str) -> None:
    folder = Folder(tmp_path / "certs")
    assert folder.source.lacking() == f"the certificate in {folder.path} has not been read yet"
    if found is not None:
        folder.write(found)
    for _ in range(3):
        folder.source.look()
    assert folder.source.lacking() == f"{folder.path}: {want}"
    assert folder.told == [f"{folder.path}: {want}"]
    assert folder.served == []
    folder.write(GOOD)
    folder.source.look()
    assert folder.source.lacking() is None
    assert [each.chain for each in folder.served] == [GOOD.chain]


def test_a_new_version_of_a_mounted_secret_is_served_from_the_next_look_on(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "certs")
    folder.swap("first", GOOD)
    folder.source.look()
    folder.swap("second", NEXT)
    folder.source.look()
    folder.source.look()
    assert [each.chain for each in folder.served] == [GOOD.chain, NEXT.chain]
    assert refusal(folder.served[-1], NEXT.ca, NOW) is None


def test_wrong_files_do_not_replace_what_is_served_as_long_as_that_is_valid(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "certs")
    folder.write(GOOD)
    folder.source.look()
    folder.write(replace(NEXT, key=GOOD.key))
    folder.source.look()
    assert folder.source.lacking() is None
    assert folder.told == [f"{folder.path}: tls.key is not the key of tls.crt"]
    folder.clock.time += 365 * DAY
    folder.source.look()
    assert folder.source.lacking() == f"{folder.path}: tls.key is not the key of tls.crt"
    folder.write(material(folder.clock.time))
    folder.source.look()
    assert folder.source.lacking() is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "certs")
    folder.write(GOOD)
    (folder.path / "tls.key").unlink()
    (folder.path / "tls.key").mkdir()
    folder.source.look()
    assert folder.source.lacking() == f"{folder.path}: tls.key cannot be read: Is a directory"


def test_certificates_without_their_authority_and_with_wildcards_are_served_too(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "certs")
    folder.write(replace(material(names=("*.grove-system.svc",)), ca=b""))
    folder.source.look()
    assert folder.source.lacking() is None


def test_the_metric_says_when_certificate_and_authority_end(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "certs")
    folder.write(GOOD)
    folder.source.look()
    name = "grove_webhook_certificate_expiry_seconds"
    (leaf,), (authority,) = certificates_in(GOOD.chain), certificates_in(GOOD.ca)
    assert folder.metrics.value(name, certificate="server") == leaf.not_valid_after_utc.timestamp()
    assert folder.metrics.value(name, certificate="ca") == authority.not_valid_after_utc.timestamp()


def test_the_names_are_those_of_the_service_of_the_installation() -> None:
    assert NAMES == (
        "grove-operator.grove-system.svc",
        "grove-operator",
        "grove-operator.grove-system",
        "grove-operator.grove-system.svc.cluster.local",
    )
    assert WebhookServer().secret_name == "grove-webhook-server-cert"
