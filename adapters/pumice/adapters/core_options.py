"""Options of all adapters for the connection to the core."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pumice.adapters.runtime.connect import ChannelFactory

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TOKEN = "PUMICE_TOKEN"
_OPTIONS = (
    click.option(
        "--core",
        "address",
        required=True,
        metavar="ADDRESS",
        help="Address of the core: HOST:PORT or unix:/path.",
    ),
    click.option(
        "--token-file",
        type=_FILE,
        envvar="PUMICE_TOKEN_FILE",
        help=f"File with a bearer token, read for every stream; default: the token in {_TOKEN}.",
    ),
    click.option("--tls-ca", type=_FILE, help="PEM file with the CA of the core's certificate."),
    click.option("--tls-cert", type=_FILE, help="PEM file with the certificate of the adapter."),
    click.option("--tls-key", type=_FILE, help="PEM file with the key of the adapter."),
    click.option("--tls-server-name", default="", help="Name in the core's certificate."),
    click.option(
        "--insecure", is_flag=True, help="Permission to connect to another machine without TLS."
    ),
)


def core_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--core`` and the TLS options. The command gets ``open_channel`` instead of them."""

    @wraps(command)
    def with_channel(
        *,
        address: str,
        token_file: Path | None,
        tls_ca: Path | None,
        tls_cert: Path | None,
        tls_key: Path | None,
        tls_server_name: str,
        insecure: bool,
        **others: Any,
    ) -> None:
        tls = (tls_ca, tls_cert, tls_key, tls_server_name)
        try:
            open_channel = _channel_factory(address, token_file, *tls, insecure=insecure)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        command(open_channel=open_channel, **others)

    decorated: Callable[..., None] = with_channel
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _channel_factory(
    address: str,
    token_file: Path | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_server_name: str,
    *,
    insecure: bool,
) -> "ChannelFactory":
    """Raises ValueError with the name of the option."""
    # Imported here, because the import takes a second and other commands do not need it.
    from pumice.adapters.runtime.connect import TlsFiles, channel_factory  # noqa: PLC0415
    from pumice.client.settings import ClientSettings  # noqa: PLC0415

    if (tls_cert or tls_key) and not tls_ca:
        raise ValueError("--tls-cert and --tls-key need --tls-ca")
    if bool(tls_cert) != bool(tls_key):
        raise ValueError("--tls-cert and --tls-key are needed together")
    tls = TlsFiles(tls_ca, tls_cert, tls_key, tls_server_name) if tls_ca else None
    token = ClientSettings(
        token=os.environ.get(_TOKEN, ""), token_file=str(token_file) if token_file else ""
    )
    # Read once now, so that an invalid token is reported at once.
    bearer = token.bearer if token.bearer() else None
    return channel_factory(address, tls, bearer=bearer, insecure=insecure)
