"""Where a client's settings come from, and which ones win."""

from pathlib import Path
from typing import Any

import pytest

from pumice.client import Client, ClientSettings, SettingsError


def load(file: Path | None = None, environment: dict[str, str] | None = None, **given: Any) -> Any:
    held = {"PUMICE_CLIENT_CONFIG": str(file)} if file else {"HOME": "/nowhere"}
    return ClientSettings.load({**held, **(environment or {})}, **given)


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
        ("timeout_seconds: soon", "timeout_seconds must be a float"),
        ("timeout_seconds: -1", "above zero"),
        ("attempts: 0", "above zero"),
        ("[1]", "must be a mapping"),
        ("a: [", "is not YAML"),
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
    with pytest.raises(SettingsError, match="go together"):
        Client(ClientSettings(tls_cert=str(file)))
    with pytest.raises(SettingsError, match="No such file"):
        Client(ClientSettings(tls_ca=str(tmp_path / "none")))
