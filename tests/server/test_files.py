"""Data files over HTTP: what comes in is stored under a safe name, and charts go out as pictures only."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from segue.server.tenants import hash_keys, parse_keys

from .serving import ALPHA, KEY, Served, ServerSettings

CSV = b"city,amount\nBeijing,3\nChengdu,4\n"
PNG = b"\x89PNG\r\n\x1a\nand so on"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, which is not there yet."""
    path = tmp_path / "data"
    monkeypatch.setenv("SEGUE_DATA", str(path))
    monkeypatch.delenv("SEGUE_CHARTS", raising=False)
    return path


@pytest.fixture
def alone(tmp_path: Path, folder: Path) -> Iterator[httpx.Client]:
    """A client of a service with one key."""
    settings = ServerSettings(keys=parse_keys(hash_keys(f"alpha:{KEY}")), body_bytes=2000, upload_bytes=4000)
    with Served(tmp_path / "segue.db", settings) as served, served.client(headers=ALPHA) as client:
        yield client


def upload(client: httpx.Client, name: str, content: bytes = CSV) -> httpx.Response:
    return client.post("/api/files", params={"name": name}, content=content)


def test_a_file_is_uploaded_listed_and_deleted(alone: httpx.Client, folder: Path) -> None:
    stored = upload(alone, "sales.csv")
    assert (stored.status_code, stored.json()["name"], stored.json()["bytes"]) == (201, "sales.csv", len(CSV))
    assert (folder / "sales.csv").read_bytes() == CSV
    assert upload(alone, "sales.csv").json()["name"] == "sales.csv", "the same content is the same file"
    assert upload(alone, "sales.csv", b"a\n1\n").json()["name"] == "sales-2.csv"
    assert [file["name"] for file in alone.get("/api/files").json()["items"]] == ["sales-2.csv", "sales.csv"]
    assert alone.delete("/api/files/sales.csv").status_code == 204
    assert [path.name for path in folder.iterdir()] == ["sales-2.csv"]
    assert alone.delete("/api/files/sales.csv").json()["error"]["message"] == "There is no file 'sales.csv'."


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("../../销售 2024.csv", "销售 2024.csv"),
        ("C:\\tables\\Sales.CSV", "Sales.csv"),
        ("/etc/.x.tsv", "x.tsv"),
        ("<b>\x00;|.csv", "_b_.csv"),
        ("..csv", "data.csv"),
    ],
)
def test_a_name_stays_in_the_folder(alone: httpx.Client, folder: Path, name: str, stored: str) -> None:
    assert upload(alone, name).json()["name"] == stored
    assert [path.name for path in folder.iterdir()] == [stored]


@pytest.mark.parametrize("name", ["page.html", "csv", "a.csv/", "script.js", "run.csv.exe"])
def test_other_kinds_of_files_are_refused(alone: httpx.Client, folder: Path, name: str) -> None:
    refused = upload(alone, name)
    assert refused.status_code == 422 and "save it as .csv, .tsv, .parquet" in refused.json()["error"]["message"]
    assert not folder.exists()


def test_a_file_may_be_longer_than_other_bodies_and_hold_anything(alone: httpx.Client) -> None:
    assert upload(alone, "deep.csv", b"[{" * 1900).status_code == 201
    assert upload(alone, "long.csv", b"x" * 4001).json()["error"]["type"] == "FileTooLong"
    assert alone.post("/api/markdown", json={"text": "x" * 2500}).status_code == 413


def test_a_folder_that_several_tenants_read_takes_in_nothing(client: httpx.Client, folder: Path) -> None:
    folder.mkdir()
    (folder / "shared.csv").write_bytes(CSV)
    refused = upload(client, "sales.csv")
    assert (refused.status_code, refused.json()["error"]["type"]) == (409, "SharedFolder")
    assert client.delete("/api/files/shared.csv").status_code == 409
    assert [file["name"] for file in client.get("/api/files").json()["items"]] == ["shared.csv"]


def test_a_chart_is_a_picture_and_nothing_else(client: httpx.Client, folder: Path) -> None:
    (folder / "charts").mkdir(parents=True)
    for name in ("sales-bar-0a.png", "page.html", "page.svg"):
        (folder / "charts" / name).write_bytes(PNG)
    (folder / "charts" / "link.png").symlink_to(folder / "charts" / "page.html")
    chart = client.get("/api/files/charts/sales-bar-0a.png")
    assert (chart.status_code, chart.content, chart.headers["content-type"]) == (200, PNG, "image/png")
    assert chart.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert chart.headers["x-content-type-options"] == "nosniff"
    for name in ("page.html", "page.svg", "link.png", "none.png", "..%2Fshared.csv", "%2e%2e"):
        assert client.get(f"/api/files/charts/{name}").status_code == 404, name
    assert client.get("/api/files/charts/sales-bar-0a.png", headers={"Authorization": ""}).status_code == 401
