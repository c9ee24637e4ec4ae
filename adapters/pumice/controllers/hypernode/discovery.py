"""The configuration of discovery, and HyperNodes that follow from labels of nodes.

The configuration lists labels from the widest domain to the host. The label of the host, which is the
last one, leads to no HyperNode. The label before it is tier 1, and tiers rise towards the first label.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

from pumice.controllers.hypernode.types import LABEL_SOURCE, SOURCE
from pumice.controllers.resources import HYPER_NODES
from pumice.controllers.runtime.objects import Manifest, new_object

_SUFFIX_LENGTH: Final = 5
# For values of a tier whose short suffixes are equal, which happens in large clusters.
_LONG_SUFFIX_LENGTH: Final = 16


class DiscoveryError(ValueError):
    """An invalid configuration of discovery."""


def enabled_sources(text: str) -> dict[str, Manifest]:
    """The enabled sources of a configuration by name; the first one of a name counts.

    Raises DiscoveryError.
    """
    try:
        found: Any = yaml.safe_load(text) or {}
        sources = found.get("networkTopologyDiscovery") or []
        enabled = [one for one in sources if one.get("enabled")]
        return {str(one.get("source")): one for one in reversed(enabled)}
    except (yaml.YAMLError, AttributeError, TypeError) as error:
        raise DiscoveryError(f"networkTopologyDiscovery cannot be read: {error!r}") from None


def labels_by_type(sources: Mapping[str, Manifest]) -> dict[str, list[str]] | None:
    """Labels by topology type; None: the source is not enabled. Raises DiscoveryError."""
    if LABEL_SOURCE not in sources:
        return None
    try:
        types = sources[LABEL_SOURCE]["config"]["networkTopologyTypes"]
        return {
            str(name): [str(one["nodeLabel"]) for one in levels] for name, levels in types.items()
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise DiscoveryError(f"networkTopologyDiscovery cannot be read: {error!r}") from None


def labelled_hyper_nodes(
    types: Mapping[str, Sequence[str]], nodes: Mapping[str, Mapping[str, str]]
) -> dict[str, Manifest]:
    """The desired HyperNodes by name."""
    found: dict[str, Manifest] = {}
    for kind, labels in sorted(types.items()):
        # From tier 1 upwards, without the host.
        tiers = list(reversed(labels[:-1]))
        members: dict[tuple[int, str], set[str]] = {}
        for node, node_labels in nodes.items():
            _add_node(node, [node_labels.get(label, "") for label in tiers], members)
        names = _names(kind, members)
        for (tier, value), below in members.items():
            # Members of a higher tier are values of the tier below it.
            own = below if tier == 1 else {names[tier - 1, one] for one in below}
            name, label = names[tier, value], tiers[tier - 1]
            found[name] = hyper_node_body(
                name, {SOURCE: LABEL_SOURCE, label: value}, tier, sorted(own), tierName=label
            )
    return found


def _names(kind: str, domains: Iterable[tuple[int, str]]) -> dict[tuple[int, str], str]:
    """The name of each tier and value. If short names are equal, all of them are replaced by long names."""
    short = {domain: _name(kind, *domain, _SUFFIX_LENGTH) for domain in domains}
    counts = Counter(short.values())
    return {
        domain: name if counts[name] == 1 else _name(kind, *domain, _LONG_SUFFIX_LENGTH)
        for domain, name in short.items()
    }


def _add_node(node: str, values: Sequence[str], members: dict[tuple[int, str], set[str]]) -> None:
    """Adds a node to its domains, up to the first missing label."""
    below = node
    for tier, value in enumerate(values, 1):
        if not value:
            return
        members.setdefault((tier, value), set()).add(below)
        below = value


def _name(kind: str, tier: int, value: str, characters: int) -> str:
    """The name follows from the value, so that a value always has the same name."""
    digest = hashlib.sha256(f"{kind}/{tier}/{value}".encode()).hexdigest()[:characters]
    safe = re.sub(r"[^a-z0-9-]+", "-", kind.lower()).strip("-")
    return f"hypernode-{safe}-tier{tier}-{digest}"


def hyper_node_body(
    name: str, labels: Mapping[str, str], tier: int, members: Iterable[str], **spec: str
) -> Manifest:
    """A HyperNode. Members of tier 1 are nodes, members of higher tiers are HyperNodes."""
    kind = "Node" if tier == 1 else "HyperNode"
    selectors = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
    return new_object(
        HYPER_NODES,
        {"name": name, "labels": dict(labels)},
        spec={"tier": tier, **spec, "members": selectors},
    )
