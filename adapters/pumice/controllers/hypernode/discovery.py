"""HyperNodes that follow from labels of nodes.

The configuration names labels from the widest to the host. The last one is the host and makes no
HyperNode; the one before it is tier 1, and tiers rise towards the first.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from pumice.controllers.hypernode.types import LABEL_SOURCE, SOURCE, UFM_SOURCE
from pumice.controllers.resources import HYPER_NODES
from pumice.controllers.runtime.objects import Manifest

_SUFFIX: Final = 5


class DiscoveryError(ValueError):
    """A configuration that cannot be used."""


def topologies(text: str) -> dict[str, list[str]] | None:
    """Labels by topology type; None when discovery by labels is off. Raises DiscoveryError."""
    try:
        found: Any = yaml.safe_load(text) or {}
        sources = found.get("networkTopologyDiscovery") or []
        own = [one for one in sources if one.get("source") == LABEL_SOURCE and one.get("enabled")]
        if not own:
            return None
        types = own[0]["config"]["networkTopologyTypes"]
        return {
            str(name): [str(one["nodeLabel"]) for one in levels] for name, levels in types.items()
        }
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise DiscoveryError(f"networkTopologyDiscovery cannot be read: {error!r}") from None


def unsupported(text: str) -> list[str]:
    """Sources that are enabled and have no effect."""
    try:
        found: Any = yaml.safe_load(text) or {}
        sources = found.get("networkTopologyDiscovery") or []
        names = {str(one.get("source")) for one in sources if one.get("enabled")}
    except (yaml.YAMLError, AttributeError, TypeError):
        # `topologies` says what is wrong.
        return []
    return sorted(names - {LABEL_SOURCE, UFM_SOURCE})


def wanted(
    types: Mapping[str, Sequence[str]], nodes: Mapping[str, Mapping[str, str]]
) -> dict[str, Manifest]:
    """HyperNodes by name."""
    found: dict[str, Manifest] = {}
    for kind, labels in sorted(types.items()):
        # Nearest first, without the host.
        levels = list(reversed(labels[:-1]))
        members: dict[tuple[int, str], set[str]] = {}
        for node, held in nodes.items():
            _climb(kind, node, [held.get(label, "") for label in levels], members)
        for (tier, value), names in members.items():
            body = _body(kind, tier, levels[tier - 1], value, names)
            found[body["metadata"]["name"]] = body
    return found


def _climb(
    kind: str, node: str, values: Sequence[str], members: dict[tuple[int, str], set[str]]
) -> None:
    """Adds a node, and the HyperNodes above it until a label is missing."""
    below = node
    for tier, value in enumerate(values, 1):
        if not value:
            return
        members.setdefault((tier, value), set()).add(below)
        below = _name(kind, tier, value)


def _name(kind: str, tier: int, value: str) -> str:
    """The same value always has the same name."""
    digest = hashlib.sha256(f"{kind}/{tier}/{value}".encode()).hexdigest()[:_SUFFIX]
    safe = re.sub(r"[^a-z0-9-]+", "-", kind.lower()).strip("-")
    return f"hypernode-{safe}-tier{tier}-{digest}"


def _body(kind: str, tier: int, label: str, value: str, names: set[str]) -> Manifest:
    member = "Node" if tier == 1 else "HyperNode"
    return {
        "apiVersion": HYPER_NODES.api_version,
        "kind": HYPER_NODES.name,
        "metadata": {
            "name": _name(kind, tier, value),
            "labels": {SOURCE: LABEL_SOURCE, label: value},
        },
        "spec": {
            "tier": tier,
            "tierName": label,
            "members": [
                {"type": member, "selector": {"exactMatch": {"name": name}}}
                for name in sorted(names)
            ],
        },
    }
