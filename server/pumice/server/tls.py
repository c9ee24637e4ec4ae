"""TLS certificates of a core. Changed files are reloaded."""

from __future__ import annotations

import logging
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
        authority = self.client_authority
        return grpc.ssl_server_certificate_configuration(
            [(_content(self.key), _content(self.certificate))],
            root_certificates=None if authority is None else _content(authority),
        )

    def _version(self) -> tuple[int, ...]:
        """A value that changes when a file is written or replaced."""
        paths = [self.certificate, self.key]
        if self.client_authority is not None:
            paths.append(self.client_authority)
        found = [path.stat() for path in paths]
        return tuple(number for stat in found for number in (stat.st_mtime_ns, stat.st_ino))

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials that check the files before every handshake. Invalid files are not used."""
        first = self._read()
        seen = [self._version()]

        def changed() -> Any:
            try:
                version = self._version()
                if version == seen[0]:
                    return None
                configuration = self._read()
            except (OSError, CertificateFileError) as error:
                log.error("cannot reload certificates; the old ones stay in use: %s", error)
                return None
            seen[0] = version
            log.info("certificates were reloaded")
            return configuration

        return grpc.dynamic_ssl_server_credentials(
            first, changed, require_client_authentication=self.client_authority is not None
        )


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
