"""HyperNodes that follow from labels of nodes.

The configuration names labels from the widest to the host. The last one is the host and makes no
HyperNode; the one before it is tier 1, and tiers rise towards the first.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

from pumice.controllers.hypernode.types import LABEL_SOURCE, SOURCE, UFM_SOURCE
from pumice.controllers.resources import HYPER_NODES
from pumice.controllers.runtime.objects import Manifest

_SUFFIX: Final = 5
# For values of one tier whose suffixes are equal, of which large clusters have some.
_LONG_SUFFIX: Final = 16


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
            _climb(node, [held.get(label, "") for label in levels], members)
        names = _names(kind, members)
        for (tier, value), below in members.items():
            # Below the first tier are values of the tier before.
            own = below if tier == 1 else {names[tier - 1, one] for one in below}
            name = names[tier, value]
            found[name] = _body(name, tier, levels[tier - 1], value, own)
    return found


def _names(kind: str, places: Iterable[tuple[int, str]]) -> dict[tuple[int, str], str]:
    """A name for each tier and value. Those whose short names are equal get long ones."""
    short = {place: _name(kind, *place, _SUFFIX) for place in places}
    counts = Counter(short.values())
    return {
        place: name if counts[name] == 1 else _name(kind, *place, _LONG_SUFFIX)
        for place, name in short.items()
    }


def _climb(node: str, values: Sequence[str], members: dict[tuple[int, str], set[str]]) -> None:
    """Adds a node, and the values above it until a label is missing."""
    below = node
    for tier, value in enumerate(values, 1):
        if not value:
            return
        members.setdefault((tier, value), set()).add(below)
        below = value


def _name(kind: str, tier: int, value: str, characters: int) -> str:
    """The same value always has the same name."""
    digest = hashlib.sha256(f"{kind}/{tier}/{value}".encode()).hexdigest()[:characters]
    safe = re.sub(r"[^a-z0-9-]+", "-", kind.lower()).strip("-")
    return f"hypernode-{safe}-tier{tier}-{digest}"


def _body(name: str, tier: int, label: str, value: str, names: set[str]) -> Manifest:
    member = "Node" if tier == 1 else "HyperNode"
    return {
        "apiVersion": HYPER_NODES.api_version,
        "kind": HYPER_NODES.name,
        "metadata": {
            "name": name,
            "labels": {SOURCE: LABEL_SOURCE, label: value},
        },
        "spec": {
            "tier": tier,
            "tierName": label,
            "members": [
                {"type": member, "selector": {"exactMatch": {"name": one}}} for one in sorted(names)
            ],
        },
    }
