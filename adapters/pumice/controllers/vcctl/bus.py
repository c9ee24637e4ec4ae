"""Command objects, which ask a controller to act on a Job or a queue."""

from pumice.adapters.kubernetes.resources import Resource
from pumice.controllers.resources import COMMANDS
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.vcctl.access import Objects


async def send(objects: Objects, resource: Resource, key: tuple[str, str], action: str) -> None:
    """Creates the Command; those of queues are in the namespace default."""
    target = await objects.get(resource, *key)
    await objects.create(COMMANDS, command_body(resource, target, action))


def command_body(resource: Resource, target: Manifest, action: str) -> Manifest:
    metadata = target["metadata"]
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.name,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "generateName": f"{metadata['name']}-{action.lower()}-",
            "namespace": metadata.get("namespace") or "default",
            "ownerReferences": [reference],
        },
        "target": reference,
        "action": action,
    }
