"""Models know nothing of an endpoint when a test begins."""

from pathlib import Path

import certifi
import pytest

from segue.models.openai import capabilities


@pytest.fixture(autouse=True)
def fresh_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "_found", {})


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    end = "-----END CERTIFICATE-----"
    path = tmp_path_factory.mktemp("tls") / "one.pem"
    path.write_text(certifi.contents().partition(end)[0] + end, encoding="ascii")
    return path


@pytest.fixture(autouse=True)
def quick_clients(one_certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each client the 40 ms that it takes to read all root certificates: nothing here speaks TLS."""
    monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
