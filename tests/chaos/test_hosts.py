from pathlib import Path

import pytest

from segue.core.agents import production_file, refused_hosts
from segue.core.errors import ConfigurationError
from segue.testing.chaos.processes import host_of, refused_in, refusing
from tests.cases import cases

AGENT = '[[agent]]\nagent_id = "shop"\n'


@cases(
    "text, host",
    [
        ("https://api.bank.example:443/v1", "api.bank.example"),
        ("bank.example:5432", "bank.example"),
        ("*.bank.example", "bank.example"),
        ("Bank.Example.", "bank.example"),
        ("[2001:DB8::1]:443", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("10.0.0.1:80", "10.0.0.1"),
    ],
)
def test_a_host_is_refused_however_it_is_written(text: str, host: str) -> None:
    assert host_of(text) == host


@cases("text", ["", "https://", "10.0.0.0/8", "bank example", "[::1", "*"])
def test_what_is_no_host_is_not_silently_allowed(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a valid host"):
        host_of(text)


@cases(
    "asked, host",
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::1%lo", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
    ],
)
def test_an_address_is_refused_in_each_of_its_forms(asked: str, host: str) -> None:
    assert refused_in([asked], [host]) == host


def test_an_older_file_is_of_production_and_refuses_hosts_too(tmp_path: Path) -> None:
    for name, line in (("new", 'older = ["old.toml"]'), ("old", 'older = ["oldest.toml"]'), ("oldest", "")):
        (tmp_path / f"{name}.toml").write_text(f"{line}\n{AGENT}")
    assert production_file(tmp_path / "new.toml") is None
    (tmp_path / "oldest.toml").write_text(
        f'older = ["new.toml"]\nproduction = true\nrefuse_hosts = ["bank.example"]\n{AGENT}'
    )
    assert production_file(tmp_path / "new.toml") == tmp_path / "oldest.toml"
    assert refused_hosts(tmp_path / "new.toml") == ["bank.example"]


def test_the_world_does_not_reach_a_refused_host_either() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        with refusing(["127.0.0.1"]), pytest.raises(ConfigurationError, match="No connection was made"):
            socket.create_connection(server.getsockname())
        with pytest.raises(BlockingIOError):
            server.accept()
        socket.create_connection(server.getsockname()).close()
