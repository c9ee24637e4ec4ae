"""Applies the manifests of deploy/ as an administrator would."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.client import Client, RefusedError

DEPLOY = Path(__file__).parents[2] / "deploy"
# Definitions first, then the namespace that the rest is in.
CRDS = sorted((DEPLOY / "crds").glob("*.yaml"))
DEFAULTS = [
    DEPLOY / "defaults" / f"{name}.yaml" for name in ("namespace", "scheduler-configuration")
]
_KUSTOMIZATION = yaml.safe_load(
    (DEPLOY / "scheduler" / "kustomization.yaml").read_text(encoding="utf-8")
)
SCHEDULER = [DEPLOY / "scheduler" / name for name in _KUSTOMIZATION["resources"]]
_CONTROLLERS = yaml.safe_load(
    (DEPLOY / "controllers" / "kustomization.yaml").read_text(encoding="utf-8")
)
CONTROLLERS = [DEPLOY / "controllers" / name for name in _CONTROLLERS["resources"]]
PLAIN = [*DEFAULTS, *SCHEDULER, *CONTROLLERS]
# Policies are not part of `apply_all`: tests create what they refuse.
ADMISSION = sorted((DEPLOY / "admission").rglob("*.yaml"))
_SERVED_SECONDS = 30.0


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


async def apply_all(client: Client) -> None:
    await apply_crds(client)
    for path in PLAIN:
        for body in documents(path):
            await client.apply(body)


async def apply_crds(client: Client) -> None:
    """Returns when the API server serves the resources."""
    for path in CRDS:
        for body in documents(path):
            await client.apply(body)
    async with asyncio.timeout(_SERVED_SECONDS):
        for path in CRDS:
            for body in documents(path):
                await served(client, body)


async def served(client: Client, definition: dict[str, Any]) -> None:
    """Returns when the objects of a definition can be listed."""
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    while True:
        try:
            await client.list(path)
        except RefusedError as error:
            # Not there yet, or there and not ready yet.
            if error.status not in (404, 429):
                raise
            await asyncio.sleep(0.1)
        else:
            return
