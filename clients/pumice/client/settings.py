"""How a core is reached: from arguments, else the environment, else a file, else this machine."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

DEFAULT_ADDRESS = "127.0.0.1:7461"
_PREFIX = "PUMICE_"
# Those that gRPC reads by itself.
_SCHEMES = ("unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:")
_HOST_AND_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d+)")
_HIGHEST_PORT = 65_535
_TOKEN = re.compile(r"[!-~]+")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class SettingsError(ValueError):
    """A setting that cannot be used: names it, its source and what is allowed."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where a core is, who we are, and how long we wait."""

    # HOST:PORT or unix:/path/to/socket.
    address: str = DEFAULT_ADDRESS
    # Empty: the only one.
    cluster: str = ""
    timeout_seconds: float = 30.0
    # Attempts at calls that may be repeated, when the core is away.
    attempts: int = 4
    # A bearer token, or a file that holds one and is read anew for every call.
    token: str = ""
    token_file: str = ""
    # PEM files. With an authority the core must show a certificate of it.
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    # The name in the core's certificate, where it is not that of the address.
    tls_server_name: str = ""
    # Sends a token to another machine without TLS, where something else protects the way.
    insecure: bool = False

    @staticmethod
    def load(
        environment: Mapping[str, str] | None = None, file: Path | None = None, **given: Any
    ) -> ClientSettings:
        """What is given counts first, then PUMICE_… variables, then the file.

        The file is the one named, else that of PUMICE_CLIENT_CONFIG, else
        ``~/.config/pumice/client.yaml`` where there is one.
        """
        environment = os.environ if environment is None else environment
        settings = ClientSettings()
        named = file or environment.get("PUMICE_CLIENT_CONFIG")
        path = Path(named) if named else Path.home() / ".config" / "pumice" / "client.yaml"
        if named or path.is_file():
            settings = _with(settings, _read(path), str(path))
        variables = {
            each.name: environment[_variable(each.name)]
            for each in fields(ClientSettings)
            if environment.get(_variable(each.name))
        }
        settings = _with(settings, variables, "the environment")
        return _with(settings, {k: v for k, v in given.items() if v is not None}, "the arguments")

    def bearer(self) -> str:
        """The token to send; empty: none."""
        if not self.token_file:
            return _token(self.token, "token") if self.token else ""
        where = f"token_file {self.token_file}"
        try:
            held = Path(self.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingsError(f"{where}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise SettingsError(f"{where}: is no text; it must hold a token") from None
        return _token(held, where)

    @property
    def is_secure(self) -> bool:
        return bool(self.tls_ca or self.tls_cert)

    @property
    def host(self) -> str:
        """Of the address; empty for a socket in the file system."""
        found = _HOST_AND_PORT.fullmatch(self.address.rpartition("/")[2])
        return (found["v6"] or found["host"]) if found else ""

    @property
    def is_local(self) -> bool:
        host = self.host
        if not host:
            return self.address.startswith("unix")
        return host in {"localhost", "::1"} or host.startswith("127.")


def _token(text: str, where: str) -> str:
    if not _TOKEN.fullmatch(text):
        problem = "is empty" if not text else "is no token: it has spaces, line breaks or the like"
        raise SettingsError(f"{where}: {problem}")
    return text


def _variable(name: str) -> str:
    names = {"timeout_seconds": "TIMEOUT"}
    return _PREFIX + names.get(name, name.upper())


def _read(path: Path) -> dict[str, Any]:
    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not YAML: {str(error).splitlines()[0]}") from None
    if held is None:
        return {}
    if not isinstance(held, dict):
        raise SettingsError(f"{path}: must be a mapping of settings")
    return held


def _with(settings: ClientSettings, values: Mapping[str, Any], source: str) -> ClientSettings:
    known = {each.name: type(getattr(settings, each.name)) for each in fields(ClientSettings)}
    read: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise SettingsError(f"{source}: unknown setting {name!r}; known: {', '.join(known)}")
        read[name] = _value(source, name, known[name], value)
    return replace(settings, **read)


def _value(source: str, name: str, kind: type, value: Any) -> Any:
    try:
        read = _WORDS[str(value).lower()] if kind is bool else kind(value)
    except (TypeError, ValueError, KeyError):
        word = "true or false" if kind is bool else f"a {kind.__name__}"
        raise SettingsError(f"{source}: {name} must be {word}, not {value!r}") from None
    if kind in (int, float) and not (read > 0 and math.isfinite(read)):
        raise SettingsError(f"{source}: {name} must be above zero, not {value!r}")
    if name == "address":
        _check_address(source, str(read))
    return read


def _check_address(source: str, address: str) -> None:
    if address.startswith(_SCHEMES):
        return
    found = _HOST_AND_PORT.fullmatch(address)
    if found is None or not 0 < int(found["port"]) <= _HIGHEST_PORT:
        raise SettingsError(
            f"{source}: address {address!r} cannot be used; "
            "allowed: HOST:PORT such as 127.0.0.1:7461, or unix:/path/to/socket"
        )
