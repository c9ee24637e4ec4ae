"""The resource groups of Volcano's admission configuration."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from pumice.controllers.runtime.objects import Manifest

GROUP_ANNOTATION: Final = "volcano.sh/resource-group"
# A policy names all groups before its own, so the text grows with the square of their number.
MOST_GROUPS: Final = 100
_FILE: Final = "volcano-admission.conf"
_FIELDS: Final = ("resourceGroup", "object", "schedulerName", "tolerations", "labels", "affinity")
_AFFINITIES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
# Volcano reads the names of these fields in lower case.
_TOLERATION: Final = {
    name.lower(): name for name in ("key", "operator", "value", "effect", "tolerationSeconds")
}


class ConfigurationError(ValueError):
    """An invalid configuration."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """The pods of a group, and the fields that they get."""

    name: str
    namespaces: tuple[str, ...] = ()
    # Pods with one of these annotations.
    annotations: tuple[tuple[str, str], ...] = ()
    scheduler_name: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] | None = None


def resource_groups(text: str) -> list[ResourceGroup]:
    """The groups of a file, or of the ConfigMap that contains it, in order. Raises ConfigurationError."""
    try:
        found: Any = yaml.safe_load(text)
        if isinstance(found, dict) and found.get("kind") == "ConfigMap":
            data = _mapping(found.get("data") or {}, "data")
            found = yaml.safe_load(_text(data.get(_FILE), f"data[{_FILE}]"))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"invalid YAML: {' '.join(str(error).split())}") from None
    found = {} if found is None else _mapping(found, "the configuration")
    _check_fields("the configuration", found, ("resourceGroups",))
    groups = [
        _group(given, f"resourceGroups[{number}]")
        for number, given in enumerate(_list(found.get("resourceGroups"), "resourceGroups"))
    ]
    names = [group.name for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"resourceGroups: {name!r} is named twice")
    if len(groups) > MOST_GROUPS:
        raise ConfigurationError(f"{len(groups)} resourceGroups; allowed: {MOST_GROUPS}")
    return groups


def _group(given: object, where: str) -> ResourceGroup:
    fields = _mapping(given, where)
    _check_fields(where, fields, _FIELDS)
    name = _text(fields.get("resourceGroup"), f"{where}.resourceGroup")
    if not name:
        raise ConfigurationError(f"{where}.resourceGroup is missing")
    namespaces, annotations = _members(name, fields.get("object"), f"{where}.object")
    selector = _mapping(fields.get("labels") or {}, f"{where}.labels")
    return ResourceGroup(
        name,
        namespaces,
        annotations,
        _text(fields.get("schedulerName"), f"{where}.schedulerName"),
        tuple((str(key), _text(value, f"{where}.labels.{key}")) for key, value in selector.items()),
        tuple(
            _toleration(one, f"{where}.tolerations[{number}]")
            for number, one in enumerate(_list(fields.get("tolerations"), f"{where}.tolerations"))
        ),
        _affinity(fields.get("affinity"), f"{where}.affinity"),
    )


def _members(
    name: str, given: object, where: str
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The namespaces and annotations of a group; without a key, also the annotation with its name."""
    fields = _mapping(given or {}, where)
    _check_fields(where, fields, ("key", "value"))
    key = _text(fields.get("key"), f"{where}.key")
    values = [_text(one, f"{where}.value") for one in _list(fields.get("value"), f"{where}.value")]
    match key:
        case "namespace":
            return tuple(values), ()
        case "annotation":
            return (), tuple(_annotations(values, where))
        case "":
            return (), (*_annotations(values, where), (GROUP_ANNOTATION, name))
    raise ConfigurationError(f"{where}.key is {key!r}; allowed: namespace, annotation")


def _annotations(values: Iterable[str], where: str) -> Iterable[tuple[str, str]]:
    for text in values:
        try:
            found: Any = yaml.safe_load(text)
        except yaml.YAMLError:
            found = None
        if not isinstance(found, dict):
            raise ConfigurationError(
                f"{where}.value {text!r} is not an annotation; allowed: a text such as 'key: value'"
            )
        for key, value in found.items():
            yield str(key), _text(value, f"{where}.value")


def _toleration(given: object, where: str) -> Manifest:
    found: Manifest = {}
    for key, value in _mapping(given, where).items():
        name = _TOLERATION.get(str(key).lower())
        if name is None:
            allowed = ", ".join(_TOLERATION.values())
            raise ConfigurationError(f"{where}.{key} is unknown; allowed: {allowed}")
        if name == "tolerationSeconds" and not (isinstance(value, int) and value is not True):
            raise ConfigurationError(f"{where}.{key} is {value!r}; allowed: a number of seconds")
        found[name] = value if name == "tolerationSeconds" else _text(value, f"{where}.{key}")
    return found


def _affinity(given: object, where: str) -> Manifest | None:
    """The affinity in a JSON text; None: the text is empty."""
    text = _text(given, where)
    if not text:
        return None
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{where} is not JSON: {error}") from None
    fields = _mapping(found, where)
    _check_fields(where, fields, _AFFINITIES)
    return fields


def _mapping(value: object, where: str) -> Manifest:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where} is not a mapping")
    return value


def _list(value: object, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigurationError(f"{where} is not a list")
    return value


def _text(value: object, where: str) -> str:
    """A text. Numbers and booleans are converted, as Go's YAML readers do."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
    raise ConfigurationError(f"{where} is not a text")


def _check_fields(where: str, given: Manifest, allowed: tuple[str, ...]) -> None:
    for name in given:
        if name not in allowed:
            raise ConfigurationError(
                f"{where}: unknown field {name!r}; allowed: {', '.join(allowed)}"
            )
