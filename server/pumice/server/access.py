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
_LOOK_AGAIN_NS = 1_000_000_000
_HASH_LENGTH = 64


class AccessFileError(InputError):
    """An invalid access file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class Role(StrEnum):
    """What a caller may do."""

    # Stream clusters.
    ADAPTER = "adapter"
    # Ask what would be decided, and read.
    FRONTEND = "frontend"
    # Read.
    OBSERVER = "observer"
    # Everything.
    ADMIN = "admin"


_READERS = frozenset({Role.OBSERVER, Role.FRONTEND, Role.ADMIN})
# Roles by service, or by method where methods differ. A service that is not listed is for admins.
_MAY: Mapping[str, frozenset[Role]] = {
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
# Health checks are open to anybody.
OPEN = ("/grpc.health.v1.Health/",)


def roles_for(method: str) -> frozenset[Role]:
    """The roles that may call a method, by its full name."""
    service = method[: method.rindex("/") + 1]
    return _MAY.get(method) or _MAY.get(service) or frozenset({Role.ADMIN})


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    name: str
    roles: frozenset[Role]
    # None: all clusters.
    clusters: frozenset[str] | None = None
    # The certificate limits the clusters, not the access file.
    by_certificate: bool = False

    def check_method(self, method: str) -> None:
        if not self.roles & roles_for(method):
            have = ", ".join(sorted(self.roles))
            raise errors.RoleDeniedError(f"{self.name} ({have})", f"call {method}")

    def may_read(self, cluster: str) -> bool:
        return self.clusters is None or cluster in self.clusters

    def check_cluster(self, cluster: str) -> str:
        """Returns the cluster that is meant: a caller of one cluster need not name it."""
        if self.clusters is None:
            return cluster
        if not cluster and len(self.clusters) == 1:
            return next(iter(self.clusters))
        if cluster in self.clusters:
            return cluster
        if self.by_certificate:
            raise errors.ClusterDeniedError(cluster)
        raise errors.RoleDeniedError(self.name, f"ask about cluster {cluster!r}")


class AccessPolicy(Protocol):
    """Decides who a caller is."""

    def caller(self, token: str | None, certificate: Certificate) -> Caller:
        """Raises TokenError or UnauthenticatedError for an unknown caller."""
        ...


class CertificatePolicy:
    """Mutual TLS without an access file: everything, for the clusters that a certificate names."""

    def caller(self, token: str | None, certificate: Certificate) -> Caller:
        if not certificate.names:
            raise errors.UnauthenticatedError
        return Caller(
            certificate.names[0], frozenset(Role), certificate.clusters, by_certificate=True
        )


class AccessFile:
    """Tokens and certificates with their roles. A change of the file applies within a second.

    A file that cannot be read any more leaves what was read before, and is logged.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """Raises AccessFileError."""
        self._path = path
        self._clock = clock
        self._looked_ns = clock.ticks_ns()
        self._version: tuple[int, int] = (0, 0)
        self._tokens: dict[str, Caller] = {}
        self._certificates: dict[str, Caller] = {}
        self._read()

    def caller(self, token: str | None, certificate: Certificate) -> Caller:
        self._look_again()
        if token is not None:
            digest = hashlib.sha256(token.encode(errors="replace")).hexdigest()
            # Every one is compared, in constant time: the time must not tell how much was right.
            found = [c for known, c in self._tokens.items() if hmac.compare_digest(known, digest)]
            if not found:
                raise errors.TokenError("the bearer token is not known")
            return found[0]
        for name in certificate.names:
            if name in self._certificates:
                return self._certificates[name]
        if certificate.names:
            # A certificate that is not listed is an adapter of the clusters it names.
            roles = frozenset({Role.ADAPTER})
            return Caller(certificate.names[0], roles, certificate.clusters, by_certificate=True)
        raise errors.TokenError("no bearer token was sent")

    def _look_again(self) -> None:
        now_ns = self._clock.ticks_ns()
        if now_ns - self._looked_ns < _LOOK_AGAIN_NS:
            return
        self._looked_ns = now_ns
        try:
            self._read()
        except AccessFileError as error:
            log.error("the access file cannot be read; roles stay unchanged: %s", error)

    def _read(self) -> None:
        try:
            stat = self._path.stat()
            version = (stat.st_mtime_ns, stat.st_size)
            if version == self._version:
                return
            held = parse(self._path.read_text(encoding="utf-8")).data
        except YamlTextError as error:
            line = f"line {error.line}: " if error.line else ""
            raise AccessFileError(self._path, f"{line}{error.problem}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise AccessFileError(self._path, str(error).splitlines()[0]) from None
        if not isinstance(held, dict) or not set(held) <= {"tokens", "certificates"}:
            raise AccessFileError(self._path, "must hold the lists 'tokens' and 'certificates'")
        tokens = [self._token(at, item) for at, item in self._items(held, "tokens")]
        certificates = [
            (caller.name, caller)
            for caller in (self._caller(at, item) for at, item in self._items(held, "certificates"))
        ]
        self._check_once("tokens", "sha256", [digest for digest, _ in tokens])
        self._check_once("certificates", "name", [name for name, _ in certificates])
        self._tokens, self._certificates = dict(tokens), dict(certificates)
        self._version = version

    def _check_once(self, key: str, field: str, names: list[str]) -> None:
        """Two entries for one caller would contradict each other."""
        for index, value in enumerate(names):
            first = names.index(value)
            if first != index:
                raise AccessFileError(
                    self._path, f"{key}[{index}].{field} is that of {key}[{first}], too"
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
            raise AccessFileError(self._path, f"{at}.{unknown[0]} is not a field")
        name, roles, clusters = item.get("name"), item.get("roles"), item.get("clusters")
        if not isinstance(name, str) or not name:
            raise AccessFileError(self._path, f"{at}.name is missing")
        known = ", ".join(Role)
        if not isinstance(roles, list) or not roles:
            raise AccessFileError(self._path, f"{at}.roles must be a list of some of: {known}")
        wrong = [role for role in map(str, roles) if role not in set(Role)]
        if wrong:
            text = f"{at}.roles must be some of: {known}; not {wrong[0]!r}"
            raise AccessFileError(self._path, text)
        if clusters is not None and not isinstance(clusters, list):
            raise AccessFileError(self._path, f"{at}.clusters must be a list of names")
        allowed = None if clusters is None else frozenset(map(str, clusters))
        return Caller(name, frozenset(Role(role) for role in roles), allowed)
