"""Starts and stops a real kube-apiserver and etcd on free ports of this machine."""

from __future__ import annotations

import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import IO

from tests.controlplane.binaries import APISERVER, ETCD, build
from tests.controlplane.credentials import ADMIN, HOST, Credentials
from tests.controlplane.guard import GUARD

# A machine that is busy with other work needs longer than a minute.
_READY_SECONDS = 240.0
_END_SECONDS = 10.0
# These put taints and finalizers on objects, which only a controller manager would remove.
_GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "DRAExtendedResource")
_UNWANTED_PLUGINS = "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"


class NotReadyError(Exception):
    """A server did not become ready; the text ends with its output."""


class ControlPlane:
    """The two servers and their files."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.credentials = Credentials(folder)
        self._options = list(options)
        self._etcd_port, self._peer_port, self._port = free_ports(3)
        self._etcd: subprocess.Popen[bytes] | None = None
        self._apiserver: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> str:
        return f"https://{HOST}:{self._port}"

    @property
    def apiserver_pid(self) -> int:
        assert self._apiserver is not None, "the API server does not run"
        return self._apiserver.pid

    @property
    def pids(self) -> list[int]:
        """The processes of the API server and of etcd."""
        return [process.pid for process in (self._apiserver, self._etcd) if process is not None]

    def start(self) -> None:
        self.credentials.write()
        etcd = f"http://{HOST}:{self._etcd_port}"
        self._etcd = self._run(
            build(ETCD),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://{HOST}:{self._peer_port}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )
        self.start_apiserver()

    def start_apiserver(self) -> None:
        files = self.credentials
        self._apiserver = self._run(
            build(APISERVER),
            f"--etcd-servers=http://{HOST}:{self._etcd_port}",
            f"--secure-port={self._port}",
            f"--bind-address={HOST}",
            f"--tls-cert-file={files.certificate}",
            f"--tls-private-key-file={files.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={files.account_public_key}",
            f"--service-account-signing-key-file={files.account_key}",
            f"--token-auth-file={files.token_file}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--disable-admission-plugins={_UNWANTED_PLUGINS}",
            "--delete-collection-workers=8",
            # PodGroups of Kubernetes itself, and extended resources that stand for devices.
            f"--feature-gates={','.join(f'{gate}=true' for gate in _GATES)}",
            "--runtime-config=scheduling.k8s.io/v1alpha2=true",
            *self._options,
        )
        self._wait_until_ready(self._apiserver)

    def stop_apiserver(self) -> None:
        # SIGKILL, because on SIGTERM it waits for its watches to end.
        _end(self._apiserver, kill=True)
        self._apiserver = None

    def stop(self) -> None:
        _end(self._apiserver, kill=True)
        _end(self._etcd, kill=True)
        self._apiserver = self._etcd = None

    def _run(self, program: Path, *arguments: str) -> subprocess.Popen[bytes]:
        log = self._log(program.name)
        with log:
            return GUARD.start([str(program), *arguments], log, self.folder)

    def _log(self, name: str) -> IO[bytes]:
        return (self.folder / f"{name}.log").open("ab")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        tls = ssl.create_default_context(cafile=str(self.credentials.certificate))
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        token = self.credentials.tokens[ADMIN]
        request = urllib.request.Request(
            f"{self.server}/readyz", headers={"Authorization": f"Bearer {token}"}
        )
        end = time.monotonic() + _READY_SECONDS
        problem = "no answer"
        while time.monotonic() < end and process.poll() is None:
            try:
                with urllib.request.urlopen(request, timeout=5, context=tls) as answer:
                    if answer.read() == b"ok":
                        return
            except (urllib.error.URLError, OSError) as error:
                problem = str(error)
            time.sleep(0.1)
        said = (self.folder / "kube-apiserver.log").read_text(errors="replace")[-3000:]
        raise NotReadyError(f"the API server is not ready ({problem}); it said:\n{said}")


@contextmanager
def running(folder: Path, options: Sequence[str] = ()) -> Iterator[ControlPlane]:
    plane = ControlPlane(folder, options)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    held = [socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def _end(process: subprocess.Popen[bytes] | None, *, kill: bool = False) -> None:
    if process is None:
        return
    if kill:
        process.kill()
    else:
        process.terminate()
    process.wait(_END_SECONDS)
