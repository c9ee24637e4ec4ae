"""Certificates of the core; changed files are read again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from pumice.core.errors import InputError

log = logging.getLogger("pumice.server")


class CertificateFileError(InputError):
    """A certificate or key that cannot be read."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files of the core's certificates. With a client authority, callers need a certificate too."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def _read(self) -> Any:
        authority = self.client_authority
        return grpc.ssl_server_certificate_configuration(
            [(_content(self.key), _content(self.certificate))],
            root_certificates=None if authority is None else _content(authority),
        )

    def _stamp(self) -> tuple[int, ...]:
        """Differs when any of the files was written or replaced."""
        paths = [self.certificate, self.key]
        if self.client_authority is not None:
            paths.append(self.client_authority)
        found = [path.stat() for path in paths]
        return tuple(number for stat in found for number in (stat.st_mtime_ns, stat.st_ino))

    def credentials(self) -> grpc.ServerCredentials:
        """Looks at the files before every handshake; a bad rotation keeps the old ones."""
        first = self._read()
        seen = [self._stamp()]

        def changed() -> Any:
            try:
                stamp = self._stamp()
                if stamp == seen[0]:
                    return None
                fresh = self._read()
            except (OSError, CertificateFileError) as error:
                log.error("certificates were not read again: %s", error)
                return None
            seen[0] = stamp
            log.info("certificates were read again")
            return fresh

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
            path, "contains no PEM data; give a certificate or key in PEM form"
        )
    return content
