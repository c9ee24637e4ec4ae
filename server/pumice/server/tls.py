"""TLS certificates of a core. Changed files are reloaded."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from pumice.core.errors import InputError

log = logging.getLogger("pumice.server")


class CertificateFileError(InputError):
    """An unreadable certificate or key file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The certificate files of a core. With a client authority, callers need a certificate."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def _read(self) -> Any:
        """The content of the files. Raises CertificateFileError for content that gRPC rejects."""
        authority = self.client_authority
        _check_pair(self.certificate, self.key)
        if authority is not None:
            _check_authority(authority)
        return grpc.ssl_server_certificate_configuration(
            [(_content(self.key), _content(self.certificate))],
            root_certificates=None if authority is None else _content(authority),
        )

    def _version(self) -> tuple[int, ...]:
        """A value that changes when a file is written or replaced."""
        paths = [self.certificate, self.key]
        if self.client_authority is not None:
            paths.append(self.client_authority)
        found = [_stat(path) for path in paths]
        return tuple(number for stat in found for number in (stat.st_mtime_ns, stat.st_ino))

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials that check the files before every handshake. Invalid files are not used."""
        seen, problem = self._version(), ""
        first = self._read()

        def changed() -> Any:
            nonlocal seen, problem
            try:
                version = self._version()
                if version == seen:
                    return None
                configuration = self._read()
            except (OSError, CertificateFileError) as error:
                # There may be many handshakes, so a problem is logged once.
                if str(error) != problem:
                    problem = str(error)
                    log.error("cannot reload certificates; the old ones stay in use: %s", error)
                return None
            seen, problem = version, ""
            log.info("certificates were reloaded")
            return configuration

        return grpc.dynamic_ssl_server_credentials(
            first, changed, require_client_authentication=self.client_authority is not None
        )


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise CertificateFileError(path, error.strerror or str(error)) from error


def _check_pair(certificate: Path, key: Path) -> None:
    for path in (certificate, key):
        _content(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # gRPC also accepts short keys.
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    try:
        # With a password, an encrypted key is an error and not a question on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        problem = f"is not the key of the certificate in {certificate}, or one of them is invalid"
        raise CertificateFileError(key, f"{problem}: {error.reason or error}") from error
    except OSError as error:
        raise CertificateFileError(certificate, error.strerror or str(error)) from error


def _check_authority(path: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=_text(path))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateFileError(path, f"contains no valid certificate: {error}") from error


def _text(path: Path) -> str:
    return _content(path).decode("ascii", "replace")


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CertificateFileError(path, error.strerror or str(error)) from error
    if b"-----BEGIN" not in content:
        raise CertificateFileError(
            path, "contains no PEM data; a certificate or key in PEM format is needed"
        )
    return content
