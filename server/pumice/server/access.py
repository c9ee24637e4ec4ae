"""Access policies: which caller has which role, for which clusters."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from pumice.core.errors import InputError
from pumice.server import errors
from pumice.server.clock import Clock
from pumice.server.peers import Certificate
from pumice.server.plain_yaml import YamlTextError, parse

log = logging.getLogger("pumice.server")
_RELOAD_INTERVAL_NS = 1_000_000_000
_HASH_LENGTH = 64


class AccessFileError(InputError):
    """An invalid access file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class Role(StrEnum):
    """A set of permissions. A caller may have several roles."""

    # Stream clusters.
    ADAPTER = "adapter"
    # Run what-if requests, and read.
    FRONTEND = "frontend"
    # Read.
    OBSERVER = "observer"
    # Everything.
    ADMIN = "admin"


_READERS = frozenset({Role.OBSERVER, Role.FRONTEND, Role.ADMIN})
# Allowed roles by service, or by method where methods differ. All other services are for admins.
_ROLES_BY_METHOD: Mapping[str, frozenset[Role]] = {
    "/pumice.v1.ClusterService/": frozenset({Role.ADAPTER, Role.ADMIN}),
    "/pumice.v1.SchedulingService/Schedule": frozenset({Role.FRONTEND, Role.ADMIN}),
    "/pumice.v1.SchedulingService/Explain": _READERS,
    "/pumice.v1.SchedulingService/EstimateStart": _READERS,
    "/pumice.v1.InspectionService/": _READERS,
    # A recording contains every object of a cluster.
    "/pumice.v1.RecordingService/": frozenset({Role.ADMIN}),
    "/pumice.v1.AdministrationService/": frozenset({Role.ADMIN}),
    "/grpc.reflection.v1alpha.ServerReflection/": frozenset(Role),
    "/grpc.reflection.v1.ServerReflection/": frozenset(Role),
}
# Health checks need no authentication.
PUBLIC_METHODS = ("/grpc.health.v1.Health/",)


def roles_for(method: str) -> frozenset[Role]:
    """The roles that may call a method, by its full name."""
    service = method[: method.rindex("/") + 1]
    return _ROLES_BY_METHOD.get(method) or _ROLES_BY_METHOD.get(service) or frozenset({Role.ADMIN})


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    name: str
    roles: frozenset[Role]
    # The clusters that the caller may use; None: all.
    clusters: frozenset[str] | None = None
    # Whether the certificate, not the access file, limits the clusters.
    by_certificate: bool = False

    def check_method(self, method: str) -> None:
        if not self.roles & roles_for(method):
            have = ", ".join(sorted(self.roles))
            raise errors.RoleDeniedError(f"{self.name} ({have})", f"call {method}")

    def check_cluster(self, cluster: str) -> str:
        """Returns the cluster of a request. A caller of only one cluster need not name it."""
        if self.clusters is None:
            return cluster
        if not cluster and len(self.clusters) == 1:
            return next(iter(self.clusters))
        if cluster in self.clusters:
            return cluster
        if self.by_certificate:
            raise errors.ClusterDeniedError(cluster)
        raise errors.RoleDeniedError(self.name, f"use cluster {cluster!r}")


class AccessPolicy(Protocol):
    """Authenticates callers."""

    def authenticate(self, token: str | None, certificate: Certificate) -> Caller:
        """Raises TokenError or UnauthenticatedError for an unknown caller."""
        ...


class CertificatePolicy:
    """Mutual TLS without an access file: every role, for the clusters that a certificate names."""

    def authenticate(self, token: str | None, certificate: Certificate) -> Caller:
        if not certificate.names:
            raise errors.UnauthenticatedError
        return Caller(
            certificate.names[0], frozenset(Role), certificate.clusters, by_certificate=True
        )


class AccessFile:
    """Tokens and certificates with their roles. A change of the file applies within a second.

    When the changed file is invalid, the error is logged and the old roles stay in use.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """Raises AccessFileError."""
        self._path = path
        self._clock = clock
        self._checked_ns = clock.ticks_ns()
        self._version: tuple[int, int, int] = (0, 0, 0)
        # The problem of the last read; empty: none.
        self._problem = ""
        self._tokens: dict[str, Caller] = {}
        self._certificates: dict[str, Caller] = {}
        self._read()

    def authenticate(self, token: str | None, certificate: Certificate) -> Caller:
        self._reload_if_due()
        if token is not None:
            digest = hashlib.sha256(token.encode(errors="replace")).hexdigest()
            # All hashes are compared, in constant time, so that timing reveals nothing about them.
            found = [c for known, c in self._tokens.items() if hmac.compare_digest(known, digest)]
            if not found:
                raise errors.TokenError("the bearer token is not known")
            return found[0]
        for name in certificate.names:
            if name in self._certificates:
                return self._certificates[name]
        if certificate.names:
            # A certificate that is not listed has the role adapter, for the clusters that it names.
            roles = frozenset({Role.ADAPTER})
            return Caller(certificate.names[0], roles, certificate.clusters, by_certificate=True)
        raise errors.TokenError("no bearer token was sent")

    def _reload_if_due(self) -> None:
        now_ns = self._clock.ticks_ns()
        if now_ns - self._checked_ns < _RELOAD_INTERVAL_NS:
            return
        self._checked_ns = now_ns
        problem, self._problem = self._problem, ""
        try:
            self._read()
        except AccessFileError as error:
            self._problem = str(error)
            # The file is read every second, so a problem is logged once.
            if self._problem != problem:
                log.error("the access file is invalid; the old roles stay in use: %s", error)

    def _read(self) -> None:
        try:
            stat = self._path.stat()
            # A file from an archive may have the time and the size of the file that it replaces.
            version = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if version == self._version:
                return
            held = parse(self._path.read_text(encoding="utf-8")).data
        except YamlTextError as error:
            line = f"line {error.line}: " if error.line else ""
            raise AccessFileError(self._path, f"{line}{error.problem}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise AccessFileError(self._path, str(error).splitlines()[0]) from None
        if not isinstance(held, dict) or not set(held) <= {"tokens", "certificates"}:
            raise AccessFileError(
                self._path, "must be a mapping with the keys 'tokens' and 'certificates'"
            )
        tokens = [self._token(at, item) for at, item in self._items(held, "tokens")]
        certificates = [
            (caller.name, caller)
            for caller in (self._caller(at, item) for at, item in self._items(held, "certificates"))
        ]
        self._check_unique("tokens", "sha256", [digest for digest, _ in tokens])
        self._check_unique("certificates", "name", [name for name, _ in certificates])
        self._tokens, self._certificates = dict(tokens), dict(certificates)
        self._version = version

    def _check_unique(self, key: str, field: str, names: list[str]) -> None:
        """Two entries for one caller could contradict each other."""
        for index, value in enumerate(names):
            first = names.index(value)
            if first != index:
                raise AccessFileError(
                    self._path, f"{key}[{index}].{field} repeats {key}[{first}].{field}"
                )

    def _items(self, held: dict[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
        items = held.get(key) or []
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise AccessFileError(self._path, f"{key} must be a list of objects")
        return [(f"{key}[{index}]", item) for index, item in enumerate(items)]

    def _token(self, at: str, item: dict[str, Any]) -> tuple[str, Caller]:
        digest = str(item.get("sha256", "")).lower()
        if len(digest) != _HASH_LENGTH or not set(digest) <= set("0123456789abcdef"):
            raise AccessFileError(
                self._path, f"{at}.sha256 must be the SHA-256 of a token in 64 hexadecimal digits"
            )
        return digest, self._caller(at, {k: v for k, v in item.items() if k != "sha256"})

    def _caller(self, at: str, item: dict[str, Any]) -> Caller:
        unknown = sorted(set(item) - {"name", "roles", "clusters"})
        if unknown:
            raise AccessFileError(self._path, f"{at}.{unknown[0]} is an unknown field")
        name, roles, clusters = item.get("name"), item.get("roles"), item.get("clusters")
        if not isinstance(name, str) or not name:
            raise AccessFileError(self._path, f"{at}.name is missing")
        known = ", ".join(Role)
        if not isinstance(roles, list) or not roles:
            raise AccessFileError(self._path, f"{at}.roles must be a list of roles: {known}")
        wrong = [role for role in map(str, roles) if role not in set(Role)]
        if wrong:
            text = f"{at}.roles has the unknown role {wrong[0]!r}; known roles: {known}"
            raise AccessFileError(self._path, text)
        if clusters is not None and not isinstance(clusters, list):
            raise AccessFileError(self._path, f"{at}.clusters must be a list of names")
        allowed = None if clusters is None else frozenset(map(str, clusters))
        return Caller(name, frozenset(Role(role) for role in roles), allowed)
