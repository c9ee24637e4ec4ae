"""Keys, certificates, tokens and kubeconfigs of a control plane that lives for one test run."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
ADMIN = "admin"
# The service account of deploy/: what it may do is what the shipped roles say.
ADAPTER = "system:serviceaccount:volcano-system:pumice-adapter"
CONTROLLERS = "system:serviceaccount:volcano-system:pumice-controllers"
# Known to the API server, and allowed nothing.
NOBODY = "nobody"
_GROUPS = {
    ADMIN: ["system:masters"],
    ADAPTER: ["system:serviceaccounts", "system:serviceaccounts:volcano-system"],
    CONTROLLERS: ["system:serviceaccounts", "system:serviceaccounts:volcano-system"],
    NOBODY: [],
}


@dataclass(slots=True)
class Credentials:
    """Files in one folder: what the servers need, and what their users need."""

    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)

    def write(self) -> None:
        self._write_server_certificate()
        self._write_account_keys()
        self.tokens = {user: secrets.token_hex(16) for user in _GROUPS}
        lines = [
            f'{token},{user},uid-{number},"{",".join(_GROUPS[user])}"'
            for number, (user, token) in enumerate(self.tokens.items())
        ]
        self.token_file.write_text("\n".join(lines) + "\n")

    @property
    def token_file(self) -> Path:
        return self.folder / "tokens.csv"

    @property
    def certificate(self) -> Path:
        """Of every server of the run; signed by itself, so it is the authority too."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        return self.folder / "server.key"

    @property
    def account_key(self) -> Path:
        return self.folder / "sa.key"

    @property
    def account_public_key(self) -> Path:
        return self.folder / "sa.pub"

    def kubeconfig(self, server: str, user: str) -> Path:
        path = self.folder / f"kubeconfig-{secrets.token_hex(4)}.json"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": server, "certificate-authority": str(self.certificate)},
                }
            ],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        }
        path.write_text(json.dumps(content))
        return path

    def _write_server_certificate(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.key.write_bytes(_private(key))

    def _write_account_keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.account_key.write_bytes(_private(key))
        self.account_public_key.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
