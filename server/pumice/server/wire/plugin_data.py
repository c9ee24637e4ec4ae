"""Converts the data that adapters report for plugins."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from pumice.core.deltas import DataReported
from pumice.core.errors import ObjectError
from pumice.v1 import delta_pb2

# Limits of one message: the number of values, and the characters of all texts.
MAX_VALUES = 64
MAX_TEXT = 256 * 1024
_KIND = "PluginData"


def read_plugin_data(message: delta_pb2.PluginData) -> DataReported:
    key = f"{message.plugin}/{message.name}"
    if not message.plugin or not message.name:
        raise ObjectError(_KIND, key, "plugin", "or name is empty; both are needed")
    values: dict[str, str | float] = {**message.numbers, **message.texts}
    if len(values) > MAX_VALUES:
        problem = f"has {len(values)} values; at most {MAX_VALUES} are allowed"
        raise ObjectError(_KIND, key, "numbers", problem)
    length = sum(map(len, message.texts.values())) + sum(map(len, values))
    if length + len(message.name) > MAX_TEXT:
        raise ObjectError(_KIND, key, "texts", f"is longer than {MAX_TEXT} characters")
    for name, number in sorted(message.numbers.items()):
        if not isfinite(number):
            raise ObjectError(_KIND, key, f"numbers[{name}]", f"must be finite, is {number}")
    return DataReported(message.plugin, message.name, values)


def write_plugin_data(
    plugin: str, name: str, values: Mapping[str, str | float]
) -> delta_pb2.PluginData:
    message = delta_pb2.PluginData(plugin=plugin, name=name)
    for key, value in values.items():
        if isinstance(value, str):
            message.texts[key] = value
        else:
            message.numbers[key] = value
    return message
