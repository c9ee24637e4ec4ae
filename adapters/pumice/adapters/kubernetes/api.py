"""Access to an API server: its address and credentials.

This is the only file that imports the `kubernetes` package, which reads kubeconfigs, in-cluster
service accounts, token files, client certificates, exec plugins and proxies. The package sends no
requests.
"""

import hashlib
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import yaml
from kubernetes.client import Configuration
from kubernetes.config import (
    ConfigException,
    incluster_config,
    load_incluster_config,
    load_kube_config,
)

from pumice.adapters.kubernetes.errors import NoAccessError, one_line

_DEFAULT_FILE: Final = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Access:
    """The address of an API server, with credentials."""

    # Scheme, host, port and path, without a trailing slash.
    server: str
    # The whole Authorization header; empty: none.
    authorization: str = ""
    # None: plain HTTP.
    tls: ssl.SSLContext | None = None
    # The name in the server's certificate, if it is not the host.
    server_name: str = ""
    proxy: str = ""
    # Values with equal fingerprints can share connections.
    fingerprint: str = ""


class AccessSource:
    """Loads access. Its methods may read files and run programs, so they must run in a thread."""

    def __init__(self, kubeconfig: str = "", context: str = "", master: str = "") -> None:
        self._kubeconfig, self._context, self._master = kubeconfig, context, master
        self._loaded: Any = None
        self._tls: tuple[str, ssl.SSLContext] | None = None

    def load(self) -> Access:
        """Reads all files and runs exec plugins. Raises NoAccessError."""
        configuration: Any = Configuration()
        try:
            self._load_into(configuration)
        except ConfigException as error:
            raise NoAccessError(f"the kubeconfig cannot be used: {one_line(error)}") from error
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
            raise NoAccessError(f"the kubeconfig cannot be read: {one_line(error)}") from error
        if self._master:
            configuration.host = self._master
        self._loaded = configuration
        return self._access()

    def refresh(self) -> Access:
        """Replaces expired tokens, and reads nothing else again."""
        if self._loaded is None:
            return self.load()
        return self._access()

    def _load_into(self, configuration: Any) -> None:
        given = self._kubeconfig
        if not given and os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            return
        path = given or os.environ.get("KUBECONFIG") or _DEFAULT_FILE
        files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
        if not any(file.is_file() for file in files):
            if self._master and not given:
                return
            if given:
                raise NoAccessError(f"--kubeconfig {given}: no such file")
            raise NoAccessError(
                f"no kubeconfig: the file {path} does not exist, and this is not a pod of a cluster; "
                "use --kubeconfig FILE or set KUBECONFIG"
            )
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=path,
            context=self._context or None,
            client_configuration=configuration,
            persist_config=False,
        )

    def _access(self) -> Access:
        configuration = self._loaded
        try:
            # Older versions of the package use the second name for the token.
            header = configuration.get_api_key_with_prefix("BearerToken", "authorization")
        except (ConfigException, OSError, ValueError) as error:
            raise NoAccessError(f"the credentials cannot be read: {one_line(error)}") from error
        server = configuration.host.rstrip("/")
        is_tls = server.startswith("https")
        return Access(
            server=server,
            # A token file may end with a line break, but a header must not.
            authorization=(header or "").strip(),
            tls=self._tls_of(configuration) if is_tls else None,
            server_name=getattr(configuration, "tls_server_name", None) or "",
            proxy=_proxy(configuration),
            fingerprint=_fingerprint(configuration),
        )

    def _tls_of(self, configuration: Any) -> ssl.SSLContext:
        """The TLS context, which is made again only when its files have changed."""
        fingerprint = _fingerprint(configuration)
        if self._tls is None or self._tls[0] != fingerprint:
            self._tls = (fingerprint, _tls_context(configuration))
        return self._tls[1]


def _proxy(configuration: Any) -> str:
    host = urlsplit(configuration.host).hostname or ""
    exceptions = getattr(configuration, "no_proxy", None) or ""
    if exceptions and proxy_bypass_environment(host, {"no": exceptions}):
        return ""
    return configuration.proxy or ""


def _tls_context(configuration: Any) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        # The CAs of clusters often lack extensions that strict verification requires.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise NoAccessError(
            f"the certificates of the kubeconfig cannot be used: {one_line(error)}"
        ) from error
    return context


def _fingerprint(configuration: Any) -> str:
    """A digest of the server's address and of the TLS files."""
    digest = hashlib.sha256(configuration.host.encode())
    for name in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        try:
            digest.update(Path(name).read_bytes() if name else b"-")
        except OSError as error:
            raise NoAccessError(f"{name} cannot be read: {error.strerror or error}") from error
    text = f"{configuration.verify_ssl} {configuration.proxy}"
    digest.update(text.encode())
    return digest.hexdigest()
