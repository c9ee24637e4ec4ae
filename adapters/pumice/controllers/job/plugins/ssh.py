"""The plugin ssh, which gives pods keys and a configuration to log in to each other."""

from base64 import b64encode
from collections.abc import Mapping
from typing import ClassVar, Final

from pumice.controllers.job.plugins.plugin import (
    JobObject,
    JobPlugin,
    PodContext,
    Value,
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


class SshPlugin(JobPlugin):
    """Gives the pods of a job one pair of keys in a Secret."""

    defaults: ClassVar[Mapping[str, Value]] = {
        "ssh-key-file-path": _HOME,
        "ssh-private-key": "",
        "ssh-public-key": "",
        "ssh-port": _DEFAULT_PORT,
    }

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        body = object_body(job, SECRETS, _name(job))
        return [JobObject(SECRETS, body, complete=lambda: self._with_keys(job, spec, body))]

    def _with_keys(self, job: Job, spec: JobSpec, body: Manifest) -> Manifest:
        """The Secret with the keys of the arguments, or with new ones."""
        private, public = self._text("ssh-private-key"), self._text("ssh-public-key")
        if not private:
            private, public = new_keys()
        texts = (private, public, public, self._configuration(job, spec))
        data = {
            name: b64encode(text.encode()).decode()
            for name, text in zip(_FILES, texts, strict=True)
        }
        return {**body, "data": data}

    def _configuration(self, job: Job, spec: JobSpec) -> str:
        port = self._number("ssh-port")
        port = port if 0 < port < 65536 else _DEFAULT_PORT
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in spec.tasks or ():
            for index in host_indexes(task):
                lines += [
                    f"Host {host_name(job, task, index)}",
                    f"  HostName {host_of(job, task, index)}",
                    f"  Port {port}",
                ]
        return "\n".join(lines) + "\n"

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        name, path = _name(context.job), self._text("ssh-key-file-path")
        items = [{"key": file, "path": f"{_FOLDER}/{file}"} for file in _FILES]
        mode = _PRIVATE_MODE if path == _HOME else _PUBLIC_MODE
        secret = {"secretName": name, "items": items, "defaultMode": mode}
        body["spec"]["volumes"].append({"name": name, "secret": secret})
        for container in containers(body, init=True):
            mount = {"name": name, "mountPath": path, "subPath": _FOLDER}
            container["volumeMounts"].append(mount)


def _name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"
