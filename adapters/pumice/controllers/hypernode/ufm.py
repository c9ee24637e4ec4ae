"""HyperNodes that follow from the ports of an InfiniBand fabric, as UFM reports them.

Leaf switches that share a computer form one HyperNode of tier 1. One HyperNode of tier 2 contains all
of them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pumice.controllers.hypernode.discovery import (
    DiscoveryError,
    enabled_sources,
    hyper_node_body,
)
from pumice.controllers.hypernode.types import SOURCE, UFM_SOURCE
from pumice.controllers.runtime.objects import Manifest
from pumice.patterns.golang import parse_duration_ns

SPINE: Final = "spine-hn"
_LEAF: Final = "leaf-hn-{}"
_COMPUTER: Final = "Computer"
_DEFAULT_INTERVAL: Final = 3600.0
_SHORTEST_INTERVAL: Final = 1.0
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LENGTH: Final = 253


@dataclass(frozen=True, slots=True)
class UfmSettings:
    """The address of UFM, the Secret with its credentials, and the interval of polls."""

    # With a scheme, without a path.
    address: str
    secret_namespace: str
    secret_name: str
    interval_seconds: float = _DEFAULT_INTERVAL
    skips_verification: bool = False


class Port(msgspec.Struct):
    """The fields of a port that discovery reads."""

    description: str | None = None
    system_name: str | None = None
    peer_node_name: str | None = None


def ufm_settings(text: str, namespace: str) -> UfmSettings | None:
    """The settings of the source; None: it is not enabled. Raises DiscoveryError."""
    source = enabled_sources(text).get(UFM_SOURCE)
    if source is None:
        return None
    try:
        secret = (source.get("credentials") or {}).get("secretRef") or {}
        configuration = source.get("config") or {}
        return UfmSettings(
            _address(configuration.get("endpoint")),
            str(secret.get("namespace") or namespace),
            _required(secret.get("name"), "credentials.secretRef.name"),
            _interval(source.get("interval")),
            configuration.get("insecureSkipVerify") is True,
        )
    except (AttributeError, TypeError) as error:
        raise DiscoveryError(f"networkTopologyDiscovery cannot be read: {error!r}") from None


def _required(value: object, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise DiscoveryError(f"networkTopologyDiscovery: source 'ufm' needs {field}")
    return value


def _address(value: object) -> str:
    """The address with a scheme, which is https by default."""
    given = _required(value, "config.endpoint")
    address = given if given.startswith(("http://", "https://")) else f"https://{given}"
    try:
        is_usable = bool(urlsplit(address).hostname)
        _ = urlsplit(address).port
    except ValueError:
        is_usable = False
    if not is_usable:
        raise DiscoveryError(
            f"networkTopologyDiscovery: config.endpoint {given!r} of source 'ufm' is not an address;"
            " allowed: a host with an optional port, such as https://ufm.example:443"
        )
    return address.rstrip("/")


def _interval(value: object) -> float:
    if value is None or value == "":
        return _DEFAULT_INTERVAL
    nanos = parse_duration_ns(str(value))
    if nanos is None or nanos / 1e9 < _SHORTEST_INTERVAL:
        raise DiscoveryError(
            f"networkTopologyDiscovery: interval {value!r} of source 'ufm' is not allowed;"
            " allowed: a duration of 1s or more, such as 10m"
        )
    return nanos / 1e9


def hyper_nodes(ports: Iterable[Port]) -> dict[str, Manifest]:
    """The desired HyperNodes by name."""
    groups = _groups(_nodes_by_leaf(ports))
    if not groups:
        return {}
    names = [_LEAF.format(number) for number in range(len(groups))]
    labels = {SOURCE: UFM_SOURCE}
    found = {
        name: hyper_node_body(name, labels, 1, nodes)
        for name, nodes in zip(names, groups, strict=True)
    }
    return {**found, SPINE: hyper_node_body(SPINE, labels, 2, names)}


def _nodes_by_leaf(ports: Iterable[Port]) -> dict[str, set[str]]:
    """The nodes of each leaf switch. Names that no node can have are ignored."""
    found: dict[str, set[str]] = {}
    for port in ports:
        node, leaf = port.system_name or "", port.peer_node_name
        is_node = len(node) <= _NAME_LENGTH and _NAME.fullmatch(node)
        if _COMPUTER in (port.description or "") and leaf and is_node:
            found.setdefault(leaf, set()).add(node)
    return found


def _groups(leaves: Mapping[str, set[str]]) -> list[list[str]]:
    """The nodes of connected leaf switches, in the order of the switches' names.

    Two leaf switches are connected if they share a node.
    """
    by_node: dict[str, list[str]] = {}
    for leaf, nodes in leaves.items():
        for node in nodes:
            by_node.setdefault(node, []).append(leaf)
    seen: set[str] = set()
    groups = []
    for first in sorted(leaves):
        group: set[str] = set()
        waiting = [first]
        while waiting:
            leaf = waiting.pop()
            if leaf in seen:
                continue
            seen.add(leaf)
            group |= leaves[leaf]
            waiting += [other for node in leaves[leaf] for other in by_node[node]]
        if group:
            groups.append(sorted(group))
    return groups
