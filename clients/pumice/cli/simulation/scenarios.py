"""Scenario files: a cluster, a configuration and the expected decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any

from google.protobuf import json_format

from pumice.cli.errors import InputProblem
from pumice.cli.simulation.changes import Change, invalid_value, read_changes
from pumice.manifests import translate_documents
from pumice.manifests.errors import FieldError
from pumice.manifests.times import timestamp_ns
from pumice.v1.object_pb2 import ClusterObject

_KEYS = (
    "name",
    "family",
    "cycles",
    "now",
    "conf",
    "objects",
    "wire",
    "changes",
    "metrics",
    "expect",
    "expect_any",
)
_CYCLE_KEYS = (
    "binds",
    "evicts",
    "podgroups",
    "conditions",
    "conditions_any",
    "pod_conditions",
    "pod_conditions_any",
)
MOST_CYCLES = 100_000

# Allowed values: lists of texts, or lists of such lists, as tuples.
Allowed = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decisions of one cycle, or the expected ones, by ``namespace/name``."""

    # Pod to node; in expectations ``*`` means any node.
    binds: Mapping[str, str]
    evicts: frozenset[str]
    # PodGroup to phase.
    phases: Mapping[str, str]
    # PodGroup to its conditions, and pod to its PodScheduled condition and nominated node. An
    # expectation may allow several values; names without an expectation are not compared.
    conditions: Mapping[str, Allowed] = field(default_factory=dict)
    pod_conditions: Mapping[str, Allowed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One cluster to simulate, and its source."""

    source: str
    name: str
    family: str
    # None for the built-in configuration.
    conf: str | None
    cycles: int
    objects: tuple[ClusterObject, ...]
    # Invalid objects, each as a line; and kinds that scheduling does not read.
    set_aside: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    # The allowed outcomes; empty if the file has none.
    expected: tuple[tuple[Outcome, ...], ...] = field(default=())
    # The time of the first cycle; None if the file has none.
    now_ns: int | None = None
    # Changes after each cycle, in addition to its decisions.
    changes: tuple[tuple[Change, ...], ...] = ()
    # By node: percent of cpu and memory in use, reported in every cycle.
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def is_scenario(body: Mapping[str, Any]) -> bool:
    """Whether a document is a scenario, which has no kind, and not a Kubernetes object."""
    return "kind" not in body and "apiVersion" not in body and any(key in body for key in _KEYS)


def read_scenario(body: Mapping[str, Any], source: str) -> Scenario:
    """Reads a scenario. Raises InputProblem with the invalid key and the allowed values."""
    _check_keys(body, _KEYS, source, "key")
    cycles = body.get("cycles")
    if not isinstance(cycles, int) or isinstance(cycles, bool) or not 1 <= cycles <= MOST_CYCLES:
        raise invalid_value(source, "cycles", cycles, f"a whole number from 1 to {MOST_CYCLES}")
    conf = body.get("conf")
    if not isinstance(conf, str):
        raise invalid_value(source, "conf", conf, "the text of a scheduler configuration")
    objects = body.get("objects", [] if "wire" in body else None)
    if not isinstance(objects, list):
        raise invalid_value(source, "objects", objects, "a list of Kubernetes objects")
    translation = translate_documents(objects, f"{source} objects")
    ignored = {ignored.kind for ignored in translation.ignored}
    return Scenario(
        source,
        _text(body, "name", PurePath(source).stem, source),
        _text(body, "family", "", source),
        conf,
        cycles,
        (*translation.objects, *_from_wire(body, source)),
        tuple(str(error) for error in translation.errors),
        tuple(sorted(ignored)),
        _expectations(body, cycles, source),
        _moment(body, source),
        read_changes(body.get("changes", []), cycles, source),
        _metrics(body, source),
    )


def _metrics(body: Mapping[str, Any], source: str) -> Mapping[str, Mapping[str, float]]:
    metrics = body.get("metrics", {})
    allowed = 'a mapping of node to {"cpu": percent, "memory": percent}'
    if not isinstance(metrics, Mapping):
        raise invalid_value(source, "metrics", metrics, allowed)
    for node, usage in metrics.items():
        good = isinstance(usage, Mapping) and set(usage) <= {"cpu", "memory"}
        if not good or not all(isinstance(percent, int | float) for percent in usage.values()):
            raise invalid_value(source, f"metrics.{node}", usage, allowed)
    return metrics


def _from_wire(body: Mapping[str, Any], source: str) -> list[ClusterObject]:
    """Objects as messages of the protocol in JSON, as exports of recordings contain them."""
    held = body.get("wire", [])
    if not isinstance(held, list):
        raise invalid_value(source, "wire", held, "a list of pumice.v1.ClusterObject in JSON")
    found = []
    for number, item in enumerate(held):
        try:
            found.append(json_format.ParseDict(item, ClusterObject()))
        except (json_format.ParseError, AttributeError, TypeError) as error:
            text = " ".join(str(error).split())
            raise InputProblem(f"{source}: wire[{number}]: {text}") from None
    return found


def _moment(body: Mapping[str, Any], source: str) -> int | None:
    text = _text(body, "now", "", source)
    try:
        return timestamp_ns(text, "now") if text else None
    except FieldError:
        raise invalid_value(source, "now", text, "a time in RFC 3339") from None


def _expectations(
    body: Mapping[str, Any], cycles: int, source: str
) -> tuple[tuple[Outcome, ...], ...]:
    if "expect" in body and "expect_any" in body:
        raise InputProblem(f"{source}: has both expect and expect_any; allowed: only one")
    if "expect_any" in body:
        outcomes = body["expect_any"]
        if not isinstance(outcomes, list) or not outcomes:
            allowed = "a list of outcomes, each a list of cycles"
            raise invalid_value(source, "expect_any", outcomes, allowed)
        return tuple(
            _outcomes(outcome, cycles, source, f"expect_any[{index}]")
            for index, outcome in enumerate(outcomes)
        )
    if "expect" in body:
        return (_outcomes(body["expect"], cycles, source, "expect"),)
    return ()


def _outcomes(value: Any, cycles: int, source: str, where: str) -> tuple[Outcome, ...]:
    if not isinstance(value, list):
        raise invalid_value(source, where, value, "a list with one entry per cycle")
    if len(value) != cycles:
        raise InputProblem(
            f"{source}: {where}: has {len(value)} entries; allowed: {cycles}, one per cycle"
        )
    return tuple(_outcome(entry, source, f"{where}[{i}]") for i, entry in enumerate(value))


def _outcome(entry: Any, source: str, where: str) -> Outcome:
    if not isinstance(entry, Mapping):
        raise invalid_value(source, where, entry, "a mapping with binds, evicts and podgroups")
    _check_keys(entry, _CYCLE_KEYS, source, f"{where}: key")
    for key in ("binds", "podgroups"):
        held = entry.get(key)
        if not isinstance(held, Mapping) or not all(isinstance(v, str) for v in held.values()):
            allowed = "a mapping of namespace/name to text"
            raise invalid_value(source, f"{where}.{key}", held, allowed)
    evicts = entry.get("evicts")
    if not isinstance(evicts, list) or not all(isinstance(name, str) for name in evicts):
        raise invalid_value(source, f"{where}.evicts", evicts, "a list of namespace/name")
    return Outcome(
        dict(entry["binds"]),
        frozenset(evicts),
        dict(entry["podgroups"]),
        _allowed(entry, "conditions", source, where),
        _allowed(entry, "pod_conditions", source, where),
    )


def _allowed(entry: Mapping[str, Any], key: str, source: str, where: str) -> dict[str, Allowed]:
    """Allowed values by name: the value of the key, or the list of the key with ``_any``."""
    one, several = entry.get(key, {}), entry.get(f"{key}_any", {})
    for name, held in ((key, one), (f"{key}_any", several)):
        if not isinstance(held, Mapping) or not all(isinstance(v, list) for v in held.values()):
            allowed = "a mapping of namespace/name to a list"
            raise invalid_value(source, f"{where}.{name}", held, allowed)
    found = {name: (_frozen(value),) for name, value in one.items()}
    return found | {name: tuple(_frozen(v) for v in values) for name, values in several.items()}


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


def _check_keys(body: Mapping[str, Any], known: tuple[str, ...], source: str, what: str) -> None:
    for key in body:
        if key not in known:
            near = get_close_matches(str(key), known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"allowed: {', '.join(known)}"
            raise InputProblem(f"{source}: unknown {what} {key!r}; {hint}")


def _text(body: Mapping[str, Any], key: str, default: str, source: str) -> str:
    value = body.get(key, default)
    if not isinstance(value, str):
        raise invalid_value(source, key, value, "text")
    return value
