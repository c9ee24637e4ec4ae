"""The settings of a client, from arguments, the environment and a file."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import yaml

from pumice.client.errors import SettingsError

DEFAULT_ADDRESS = "127.0.0.1:7461"
_PREFIX = "PUMICE_"
# Schemes that gRPC handles.
_SCHEMES = ("unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:")
_HOST_AND_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d+)")
_HIGHEST_PORT = 65_535
_TOKEN = re.compile(r"[!-~]+")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class SettingsArguments(TypedDict, total=False):
    """Settings as keyword arguments; None means not given. ``ClientSettings`` describes them."""

    address: str | None
    cluster: str | None
    timeout_seconds: float | None
    retry_seconds: float | None
    token: str | None
    token_file: str | None
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    tls_server_name: str | None
    insecure: bool | None


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The address of a core, the credentials, and time limits."""

    # HOST:PORT or unix:/path/to/socket.
    address: str = DEFAULT_ADDRESS
    # The cluster of calls that name none; empty for the only cluster of the core.
    cluster: str = ""
    # The timeout of a call, with all its pages and retries.
    timeout_seconds: float = 30.0
    # Maximum time for which a call is retried while no core answers, within timeout_seconds.
    retry_seconds: float = 30.0
    # A bearer token, or a file with one. The file is read for every call.
    token: str = ""
    token_file: str = ""
    # PEM files: the authority of the core's certificate, and the certificate and key of this client.
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    # The name in the core's certificate, if it is not the host of the address.
    tls_server_name: str = ""
    # Permission to send a token to another machine without TLS.
    insecure: bool = False

    @staticmethod
    def load(
        *,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
        defaults: ClientSettings | None = None,
        **arguments: Unpack[SettingsArguments],
    ) -> ClientSettings:
        """Settings from the arguments, PUMICE_… variables, a file, or the defaults, in this order.

        The file is ``file``, the one that PUMICE_CLIENT_CONFIG names, or
        ``~/.config/pumice/client.yaml`` if it exists.
        """
        environment = os.environ if environment is None else environment
        settings = defaults or ClientSettings()
        named = file or environment.get("PUMICE_CLIENT_CONFIG")
        path = Path(named) if named else Path.home() / ".config" / "pumice" / "client.yaml"
        if named or path.is_file():
            settings = _with(settings, _read(path), str(path))
        variables = {
            name: environment[_variable(name)]
            for name in _DEFAULTS
            if environment.get(_variable(name))
        }
        settings = _with(settings, variables, "the environment")
        given = {name: value for name, value in arguments.items() if value is not None}
        return _with(settings, given, "the arguments")

    def bearer(self) -> str:
        """The bearer token; empty if there is none."""
        if not self.token_file:
            return _token(self.token, "token") if self.token else ""
        where = f"token_file {self.token_file}"
        try:
            text = Path(self.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingsError(f"{where}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise SettingsError(f"{where}: not text; the file must contain a token") from None
        return _token(text, where)

    @property
    def is_secure(self) -> bool:
        return bool(self.tls_ca or self.tls_cert)

    @property
    def host(self) -> str:
        """The host of the address; empty for a socket in the file system."""
        found = _HOST_AND_PORT.fullmatch(self.address.rpartition("/")[2])
        return (found["v6"] or found["host"]) if found else ""

    @property
    def is_local(self) -> bool:
        host = self.host
        if not host:
            return self.address.startswith("unix")
        return host in {"localhost", "::1"} or host.startswith("127.")


# The default values by setting, which have the types of the settings.
_DEFAULTS: Mapping[str, object] = {each.name: each.default for each in fields(ClientSettings)}


def _token(text: str, where: str) -> str:
    if not _TOKEN.fullmatch(text):
        problem = "is empty" if not text else "contains spaces, line breaks or other characters"
        raise SettingsError(f"{where}: {problem}; a token is one word of ASCII characters")
    return text


def _variable(name: str) -> str:
    return _PREFIX + name.upper().removesuffix("_SECONDS")


def _read(path: Path) -> dict[str, object]:
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: invalid YAML: {str(error).splitlines()[0]}") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise SettingsError(f"{path}: must be a mapping of settings")
    return settings


def _with(settings: ClientSettings, values: Mapping[str, object], source: str) -> ClientSettings:
    read: dict[str, Any] = {}
    for name, value in values.items():
        if name not in _DEFAULTS:
            raise SettingsError(
                f"{source}: unknown setting {name!r}; allowed: {', '.join(_DEFAULTS)}"
            )
        read[name] = _value(source, name, value)
    return replace(settings, **read)


def _value(source: str, name: str, value: object) -> str | float | bool:
    match _DEFAULTS[name]:
        case bool():
            word = str(value).lower()
            if word not in _WORDS:
                raise SettingsError(f"{source}: {name} must be true or false, not {value!r}")
            return _WORDS[word]
        case float():
            return _seconds(source, name, value)
    if not isinstance(value, str):
        raise SettingsError(f"{source}: {name} must be text, not {value!r}")
    if name == "address":
        _check_address(source, value)
    return value


def _seconds(source: str, name: str, value: object) -> float:
    try:
        seconds = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        seconds = math.nan
    # A retry time of zero means one attempt.
    allowed = seconds > 0 or (name == "retry_seconds" and seconds == 0)
    if not (allowed and math.isfinite(seconds)):
        raise SettingsError(f"{source}: {name} must be a number above zero, not {value!r}")
    return seconds


def _check_address(source: str, address: str) -> None:
    if address.startswith(_SCHEMES):
        return
    found = _HOST_AND_PORT.fullmatch(address)
    if found is None or not 0 < int(found["port"]) <= _HIGHEST_PORT:
        raise SettingsError(
            f"invalid address {address!r} from {source}; "
            "allowed: HOST:PORT such as 127.0.0.1:7461, or unix:/path/to/socket"
        )
