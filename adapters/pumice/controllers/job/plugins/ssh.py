"""The ssh plugin: keys and a configuration with which the pods of a job log in to each other."""

from base64 import b64encode
from typing import Final

from pumice.controllers.job.plugins.arguments import parse
from pumice.controllers.job.plugins.context import (
    JobObject,
    PodContext,
    containers,
    host_indexes,
    host_name,
    host_of,
    object_body,
)
from pumice.controllers.job.types import Job, JobSpec
from pumice.controllers.resources import SECRETS
from pumice.controllers.runtime.objects import Manifest

_HOME: Final = "/root/.ssh"
_FOLDER: Final = ".ssh"
_FILES: Final = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_DEFAULT_PORT: Final = 22
_BITS: Final = 2048
_PRIVATE_MODE: Final = 0o600
_PUBLIC_MODE: Final = 0o644


def new_keys() -> tuple[str, str]:
    """A new private key in PEM form, and its public key in OpenSSH form."""
    # Imported here because few jobs need it.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return private.decode(), f"{public.decode()}\n"


class SshPlugin:
    """Gives the pods of a job one pair of keys, which lives as long as the job runs."""

    def __init__(self, arguments: list[str]) -> None:
        defaults: dict[str, str | int | bool] = {
            "ssh-key-file-path": _HOME,
            "ssh-private-key": "",
            "ssh-public-key": "",
            "ssh-port": _DEFAULT_PORT,
        }
        given = parse(arguments, defaults)
        self.problem = given.problem
        self._path = given.text("ssh-key-file-path")
        self._keys = (given.text("ssh-private-key"), given.text("ssh-public-key"))
        port = given.number("ssh-port")
        self._port = port if 0 < port < 65536 else _DEFAULT_PORT

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        body = object_body(job, "v1", "Secret", _name(job))
        return [JobObject(SECRETS, body, complete=lambda: self._with_keys(job, spec, body))]

    def _with_keys(self, job: Job, spec: JobSpec, body: Manifest) -> Manifest:
        """The Secret with keys; new ones are random."""
        private, public = self._keys if self._keys[0] else new_keys()
        texts = (private, public, public, self._configuration(job, spec))
        data = {
            name: b64encode(text.encode()).decode()
            for name, text in zip(_FILES, texts, strict=True)
        }
        return {**body, "data": data}

    def _configuration(self, job: Job, spec: JobSpec) -> str:
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in spec.tasks or ():
            for index in host_indexes(task):
                lines += [
                    f"Host {host_name(job, task, index)}",
                    f"  HostName {host_of(job, task, index)}",
                    f"  Port {self._port}",
                ]
        return "\n".join(lines) + "\n"

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        name = _name(context.job)
        items = [{"key": file, "path": f"{_FOLDER}/{file}"} for file in _FILES]
        mode = _PRIVATE_MODE if self._path == _HOME else _PUBLIC_MODE
        secret = {"secretName": name, "items": items, "defaultMode": mode}
        body["spec"]["volumes"].append({"name": name, "secret": secret})
        for container in containers(body, init=True):
            mount = {"name": name, "mountPath": self._path, "subPath": _FOLDER}
            container["volumeMounts"].append(mount)


def _name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"
