"""The settings that a search varies: actions, plugins and arguments, and fields of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from pumice.evaluation.candidate import CandidateError
from pumice.evaluation.overrides import Override

Body = dict[str, Any]

# Optional actions, each with the action after which it is inserted.
_ACTIONS = {"preempt": "allocate", "reclaim": "allocate", "backfill": "allocate"}
# Optional plugins: they order jobs or nodes, and enforce no limits except overcommit.
_PLUGINS = ("binpack", "drf", "nodeorder", "overcommit")
_WEIGHTS = (0, 1, 2, 5, 10)
# Arguments of plugins that are varied while the plugin is configured.
ARGUMENTS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "binpack": {
        "binpack.weight": (1, 2, 5, 10),
        "binpack.cpu": _WEIGHTS,
        "binpack.memory": _WEIGHTS,
    },
    "nodeorder": {
        "leastrequested.weight": _WEIGHTS,
        "mostrequested.weight": _WEIGHTS,
        "balancedresource.weight": _WEIGHTS,
    },
    "overcommit": {"overcommit-factor": (1.0, 1.2, 1.5, 2.0)},
}


@dataclass(frozen=True, slots=True)
class Dimension:
    """One setting with its values."""

    name: str
    values: tuple[Any, ...]
    # Changes a configuration in place; None if the setting is an override.
    change: Callable[[Body, Any], None] | None = None


def read_body(text: str) -> Body:
    """The configuration as a mapping. Raises CandidateError."""
    try:
        body = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise CandidateError(f"configuration: invalid YAML: {error}") from None
    if not isinstance(body, dict) or not isinstance(body.get("actions"), str):
        raise CandidateError("configuration: expected a mapping with actions and tiers")
    if not isinstance(body.get("tiers"), list):
        raise CandidateError("configuration: expected a list of tiers")
    return body


def space_of(body: Body, varied: Mapping[str, Sequence[str]]) -> list[Dimension]:
    """The settings of a configuration to vary, and the given fields of objects."""
    named = {plugin["name"] for plugin in _plugins(body)}
    found = [
        Dimension(f"action {name}", (not has_action(body, name),), _switch_action(name))
        for name in _ACTIONS
    ]
    found += [
        Dimension(f"plugin {name}", (name not in named,), _switch_plugin(name)) for name in _PLUGINS
    ]
    for plugin, arguments in ARGUMENTS.items():
        found += [
            Dimension(name, values, _set_argument(plugin, name))
            for name, values in arguments.items()
        ]
    found += [Dimension(path, tuple(values)) for path, values in varied.items()]
    for path, values in varied.items():
        for value in values:
            Override.read(f"{path}={value}")
    return found


def has_action(body: Body, name: str) -> bool:
    return name in _actions(body)


def _actions(body: Body) -> list[str]:
    return [name.strip() for name in body["actions"].split(",") if name.strip()]


def _plugins(body: Body) -> list[Body]:
    tiers = (tier.get("plugins") or [] for tier in body["tiers"] if isinstance(tier, dict))
    return [plugin for tier in tiers for plugin in tier if isinstance(plugin, dict)]


def _switch_action(name: str) -> Callable[[Body, Any], None]:
    def change(body: Body, value: Any) -> None:
        actions = [one for one in _actions(body) if one != name]
        if value:
            after = _ACTIONS[name]
            place = actions.index(after) + 1 if after in actions else len(actions)
            actions.insert(place, name)
        body["actions"] = ", ".join(actions)

    return change


def _switch_plugin(name: str) -> Callable[[Body, Any], None]:
    def change(body: Body, value: Any) -> None:
        if value:
            body["tiers"][-1].setdefault("plugins", []).append({"name": name})
            return
        for tier in body["tiers"]:
            plugins = tier.get("plugins") or []
            tier["plugins"] = [one for one in plugins if one.get("name") != name]
        body["tiers"] = [tier for tier in body["tiers"] if tier["plugins"]]

    return change


def _set_argument(plugin: str, name: str) -> Callable[[Body, Any], None]:
    def change(body: Body, value: Any) -> None:
        for one in _plugins(body):
            if one.get("name") == plugin:
                one["arguments"] = {**(one.get("arguments") or {}), name: value}

    return change
