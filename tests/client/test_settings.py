"""Where a client's settings come from, and which ones win."""

from pathlib import Path
from typing import Any

import pytest

from pumice.client import Client, ClientSettings, SettingsError
from tests.server.certificates import Authority


def load(file: Path | None = None, environment: dict[str, str] | None = None, **given: Any) -> Any:
    held = {"PUMICE_CLIENT_CONFIG": str(file)} if file else {"HOME": "/nowhere"}
    return ClientSettings.load(environment={**held, **(environment or {})}, **given)


def test_arguments_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.yaml"
    file.write_text("address: a:1\ncluster: from-file\ntimeout_seconds: 5\n")
    environment = {"PUMICE_ADDRESS": "b:2", "PUMICE_CLUSTER": "from-environment"}
    found = load(file, environment, cluster="given", address=None)
    assert (found.address, found.cluster, found.timeout_seconds) == ("b:2", "given", 5.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("adress: x", "unknown setting 'adress'"),
        ("timeout_seconds: soon", "timeout_seconds must be a number above zero"),
        ("timeout_seconds: -1", "above zero"),
        ("retry_seconds: -1", "above zero"),
        ("attempts: 4", "unknown setting 'attempts'"),
        ("cluster: 4", "cluster must be text"),
        ("timeout_seconds: .nan", "above zero"),
        ("timeout_seconds: .inf", "above zero"),
        ("insecure: perhaps", "insecure must be true or false"),
        ("address: localhost", "allowed: HOST:PORT"),
        ("address: http://localhost:7461", "allowed: HOST:PORT"),
        ("address: localhost:99999", "allowed: HOST:PORT"),
        ("[1]", "must be a mapping"),
        ("a: [", "invalid YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "client.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=problem) as caught:
        load(file)
    assert str(file) in str(caught.value)


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        load(tmp_path / "none.yaml")


def test_a_token_is_read_from_its_file_every_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    settings = ClientSettings(token_file=str(file))
    assert settings.bearer() == "first"
    file.write_text("second\n")
    assert settings.bearer() == "second"


def test_half_a_pair_of_tls_files_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("x")
    with pytest.raises(SettingsError, match="only one of tls_cert and tls_key is set; set both"):
        Client(ClientSettings(tls_cert=str(file)))
    with pytest.raises(SettingsError, match="No such file"):
        Client(ClientSettings(tls_ca=str(tmp_path / "none")))


@pytest.mark.parametrize(
    "address", ["core.example:7461", "10.0.0.1:1", "[::1]:7461", "unix:/run/core", "dns:///a:1"]
)
def test_addresses_that_grpc_reads_are_taken(address: str) -> None:
    assert load(address=address).address == address


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        (b"", "is empty"),
        (b"a\nb", "contains spaces"),
        (b"\xff\xfe", "not text; the file must contain a token"),
    ],
)
def test_a_file_without_a_token_is_named(tmp_path: Path, held: bytes, problem: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(held)
    with pytest.raises(SettingsError, match=f"token_file {file}: {problem}"):
        ClientSettings(token_file=str(file)).bearer()


def test_a_token_does_not_travel_to_another_machine_in_the_clear() -> None:
    far = "core.example:7461"
    with pytest.raises(SettingsError, match="without TLS; set tls_ca, or set insecure"):
        Client(ClientSettings(address=far, token="t"))
    Client(ClientSettings(address=far, token="t", insecure=True)).close()
    for near in ("localhost:7461", "127.0.0.1:7461", "[::1]:7461", "unix:/run/core.sock"):
        Client(ClientSettings(address=near, token="t")).close()


def test_tls_files_are_looked_at_before_a_call(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = map(str, authority.issue("one", "one"))
    other_key = str(authority.issue("two", "two")[1])
    junk = tmp_path / "junk"
    junk.write_text("x")
    with pytest.raises(SettingsError, match="junk: no certificate in PEM"):
        Client(ClientSettings(tls_ca=str(junk)))
    with pytest.raises(SettingsError, match="do not belong together"):
        Client(ClientSettings(tls_cert=certificate, tls_key=other_key))
    with pytest.raises(SettingsError, match="no certificate and key in PEM"):
        Client(ClientSettings(tls_cert=certificate, tls_key=str(junk)))
    Client(ClientSettings(tls_cert=certificate, tls_key=key)).close()
