"""The PersistentVolumeClaims of a Job's volumes."""

import hashlib

from pumice.controllers.job.types import Job, JobSpec
from pumice.controllers.resources import CLAIMS, JOBS
from pumice.controllers.runtime.objects import Manifest, new_object, owner_reference


def claim_names(job: Job, spec: JobSpec) -> list[str]:
    """The claim of each volume. If a volume has no claim name, the name follows from the job."""
    return [
        volume.volume_claim_name or _generated(job, number)
        for number, volume in enumerate(spec.volumes or ())
    ]


def _generated(job: Job, number: int) -> str:
    text = f"{job.metadata.uid}/{number}".encode()
    digest = hashlib.blake2b(text, digest_size=6).hexdigest()
    return f"{job.metadata.name}-pvc-{digest}"


def claim_bodies(job: Job, spec: JobSpec) -> dict[str, Manifest]:
    """The claims that the controller creates, by name."""
    return {
        name: new_object(
            CLAIMS,
            {
                "name": name,
                "namespace": job.metadata.namespace,
                "ownerReferences": [owner_reference(JOBS, job.metadata)],
            },
            spec=volume.volume_claim,
        )
        for name, volume in zip(claim_names(job, spec), spec.volumes or (), strict=True)
        if volume.volume_claim
    }


def named_volumes(job: Job, spec: JobSpec) -> list[Manifest] | None:
    """The volumes with the names of generated claims; None: all volumes have names."""
    volumes = spec.volumes or []
    if all(volume.volume_claim_name for volume in volumes):
        return None
    named = []
    for name, volume in zip(claim_names(job, spec), volumes, strict=True):
        body: Manifest = {"mountPath": volume.mount_path, "volumeClaimName": name}
        if volume.volume_claim is not None:
            body["volumeClaim"] = volume.volume_claim
        named.append(body)
    return named
