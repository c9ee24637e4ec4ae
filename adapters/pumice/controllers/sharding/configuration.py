"""The configuration of the sharding controller, from a ConfigMap or else from flags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from pumice.controllers.sharding.policies import DEFAULT_POLICY, NODE_LIMIT, WARMUP, Policy, policy
from pumice.patterns.golang import parse_bool, parse_decimal, parse_duration_ns, parse_int

KEY: Final = "sharding.yaml"
_FLAG_PARTS: Final = 7
_INFINITE: Final = {"inf": 1.0, "infinity": 1.0, "-inf": 0.0, "-infinity": 0.0}


@dataclass(frozen=True, slots=True)
class Weighted:
    """A policy, and the weight of its score."""

    policy: Policy
    weight: int


@dataclass(frozen=True, slots=True)
class SchedulerPolicies:
    """A scheduler, and the policies that choose its nodes."""

    name: str
    policies: tuple[Weighted, ...]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Schedulers in the order in which they choose nodes, and when they choose again."""

    schedulers: tuple[SchedulerPolicies, ...] = ()
    # None: the flag decides.
    period_seconds: float | None = None
    follows_nodes: bool | None = None


def read(text: str) -> Configuration:
    """The configuration of a ConfigMap. Raises ValueError."""
    try:
        found: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{KEY} is invalid YAML: {error}") from None
    configs = found.get("schedulerConfigs") if isinstance(found, dict) else None
    if not isinstance(configs, list) or not configs:
        raise ValueError(f"{KEY} needs a list schedulerConfigs with at least one entry")
    schedulers = tuple(_scheduler(number, one) for number, one in enumerate(configs))
    follows = found.get("enableNodeEventTrigger")
    if follows is not None and not isinstance(follows, bool):
        raise ValueError(f"enableNodeEventTrigger is {follows!r}; allowed: true, false")
    return Configuration(_distinct(schedulers), _period(found.get("shardSyncPeriod")), follows)


def _period(text: Any) -> float | None:
    if text in (None, ""):
        return None
    found = parse_duration_ns(str(text))
    if not found or found < 0:
        raise ValueError(f"shardSyncPeriod is {text!r}; allowed: a duration above 0, such as 60s")
    return found / 1e9


def _distinct(schedulers: tuple[SchedulerPolicies, ...]) -> tuple[SchedulerPolicies, ...]:
    names = [one.name for one in schedulers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"schedulerConfigs: {', '.join(twice)} is listed twice")
    return schedulers


def _scheduler(number: int, given: Any) -> SchedulerPolicies:
    where = f"schedulerConfigs[{number}]"
    if not isinstance(given, Mapping) or not given.get("name"):
        raise ValueError(f"{where}: name is missing")
    name = str(given["name"])
    try:
        return SchedulerPolicies(name, tuple(_policies(given)))
    except ValueError as error:
        raise ValueError(f"{where} ({name}): {error}") from None


def _policies(given: Mapping[str, Any]) -> list[Weighted]:
    """The policies of a scheduler. Older fields are equivalent to policies."""
    chain = given.get("policies") or []
    if not isinstance(chain, list) or not all(isinstance(one, Mapping) for one in chain):
        raise ValueError("policies is not a list of policies")
    found = [_weighted(one) for one in chain]
    names = {str(one["name"]) for one in chain}
    if not chain:
        old = {"minCPUUtil": "cpuUtilizationMin", "maxCPUUtil": "cpuUtilizationMax"}
        scalars = {key: given[field] for key, field in old.items() if field in given}
        found.append(Weighted(policy(DEFAULT_POLICY, given.get("arguments") or scalars), 1))
        if given.get("preferWarmupNodes"):
            found.append(Weighted(policy(WARMUP, {}), 1))
    limits = {key: given[key] for key in ("minNodes", "maxNodes") if given.get(key)}
    if limits and NODE_LIMIT not in names:
        found.append(Weighted(policy(NODE_LIMIT, limits), 1))
    return found


def _weighted(given: Mapping[str, Any]) -> Weighted:
    weight = given.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, int) or weight < 0:
        raise ValueError(f"weight is {weight!r}; allowed: a whole number from 0")
    arguments = given.get("arguments") or {}
    if not given.get("name") or not isinstance(arguments, Mapping):
        raise ValueError("a policy needs a name, and arguments by name")
    # As in Volcano, a weight of 0 means the default.
    return Weighted(policy(str(given["name"]), arguments), weight or 1)


def read_flags(texts: Sequence[str]) -> Configuration:
    """The configuration of `--scheduler-configs`. Raises ValueError."""
    return Configuration(_distinct(tuple(_flag(text) for text in texts)))


def _flag(text: str) -> SchedulerPolicies:
    parts = text.split(":")
    low, high, prefers, min_nodes, max_nodes = (
        (
            _utilization(parts[2]),
            _utilization(parts[3]),
            parse_bool(parts[4]),
            parse_int(parts[5]),
            parse_int(parts[6]),
        )
        if len(parts) == _FLAG_PARTS
        else (None,) * 5
    )
    if low is None or high is None or prefers is None or min_nodes is None or max_nodes is None:
        raise ValueError(
            f"--scheduler-configs: {text!r}; allowed:"
            " name:type:min_util:max_util:prefer_warmup:min_nodes:max_nodes"
        )
    given = {
        "name": parts[0],
        "cpuUtilizationMin": low,
        "cpuUtilizationMax": high,
        "preferWarmupNodes": prefers,
        "minNodes": min_nodes,
        "maxNodes": max_nodes,
    }
    try:
        return _scheduler(0, given)
    except ValueError as error:
        raise ValueError(f"--scheduler-configs: {text!r}: {error}") from None


def _utilization(text: str) -> float | None:
    return _INFINITE[text] if text in _INFINITE else parse_decimal(text)
