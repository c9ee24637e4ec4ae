"""Checks a configuration and describes each of its lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pumice.core.configuration import FLAG_DEFAULTS, Arguments, Catalog
from pumice.core.configuration.volcano_names import INIT_PARAMETERS, InitParameters
from pumice.core.registry import Registry
from pumice.server.configuration import ConfigurationRefusedError, read
from pumice.server.configuration_help import ACTIONS, FLAGS, PLUGINS
from pumice.server.plain_yaml import Path, parse
from pumice.v1 import configuration_pb2, inspection_service_pb2

_FIRST_TIER = "asked first; its orders and victims are final"
_LATER_TIER = "asked where the tiers before it have no answer"


def check(
    configuration: configuration_pb2.Configuration, registry: Registry
) -> inspection_service_pb2.CheckConfigResponse:
    """Checks a configuration. Problems are part of the response; nothing is raised."""
    try:
        effective = read(configuration, registry)
    except ConfigurationRefusedError as error:
        return inspection_service_pb2.CheckConfigResponse(problems=error.problem_messages)
    catalog = registry.for_compat(configuration.compat).catalog()
    return inspection_service_pb2.CheckConfigResponse(
        valid=True,
        problems=effective.warnings,
        notes=notes_of(configuration.scheduler_conf, catalog),
        config_hash=effective.hash,
    )


def notes_of(text: str, catalog: Catalog) -> list[inspection_service_pb2.ConfigurationNote]:
    """Notes on a valid text, in the order of its lines; the built-in default has none."""
    if not text.strip():
        return []
    parsed = parse(text)
    notes = [
        inspection_service_pb2.ConfigurationNote(
            line=parsed.line_of(path), path=_shown(path), meaning=meaning, page=page
        )
        for path, meaning, page in _with_pages(_mapping(parsed.data), catalog)
    ]
    return sorted(notes, key=lambda note: note.line)


def _with_pages(data: Mapping[str, Any], catalog: Catalog) -> Iterator[tuple[Path, str, str]]:
    """Each note with the page about its action or plugin."""
    for path, meaning in _meanings(data, catalog):
        name = meaning.partition(":")[0]
        if path == ("actions",) and name in ACTIONS:
            yield path, meaning, f"reference/actions/{name}.md"
        elif path[0] == "tiers" and path[-1] == "name" and name in PLUGINS:
            yield path, meaning, f"reference/plugins/{name}.md"
        else:
            yield path, meaning, ""


def _meanings(data: Mapping[str, Any], catalog: Catalog) -> Iterator[tuple[Path, str]]:
    for word in (part.strip() for part in str(data.get("actions", "")).split(",")):
        if word:
            yield ("actions",), f"{word}: {ACTIONS.get(word, 'a custom action')}"
    for number, tier in enumerate(_list(data.get("tiers"))):
        place = _FIRST_TIER if number == 0 else _LATER_TIER
        yield ("tiers", number), f"tier {number + 1}: {place}"
        for index, plugin in enumerate(_list(_mapping(tier).get("plugins"))):
            yield from _plugin(("tiers", number, "plugins", index), _mapping(plugin), catalog)
    for number, entry in enumerate(_list(data.get("configurations"))):
        path: Path = ("configurations", number)
        name = str(_mapping(entry).get("name"))
        declared = catalog.actions.get(name, Arguments)
        what = "arguments of this action"
        if name == INIT_PARAMETERS:
            declared, what = InitParameters, "parameters of MindCluster"
        yield path, f"{name}: {what}"
        yield from _arguments(path, _mapping(entry), declared)
    if data.get("metrics"):
        yield ("metrics",), "the source of the measured node usage"


def _plugin(path: Path, plugin: Mapping[str, Any], catalog: Catalog) -> Iterator[tuple[Path, str]]:
    name = str(plugin.get("name"))
    yield (*path, "name"), f"{name}: {PLUGINS.get(name, 'a custom plugin')}"
    for key, value in plugin.items():
        if key in FLAGS:
            verb = "decides" if value else "does not decide"
            default = " (the default)" if value is FLAG_DEFAULTS[key] else ""
            yield (*path, key), f"{name} {verb} {FLAGS[key]}{default}"
    yield from _arguments(path, plugin, catalog.plugins.get(name, Arguments))


def _arguments(
    path: Path, entry: Mapping[str, Any], declared: type[Arguments]
) -> Iterator[tuple[Path, str]]:
    for key, value in _mapping(entry.get("arguments")).items():
        argument = declared.find(str(key))
        if argument is not None:
            why = argument.why_without_effect
            meaning = f"no effect: {why}" if why else argument.meaning
            yield (*path, "arguments", str(key)), f"{key} = {value}: {meaning}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(path: Path) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".")
