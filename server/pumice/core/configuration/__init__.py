"""The scheduler configuration: its value, its arguments, and the strict readers of its files."""

from pumice.core.configuration.argument_types import ArgumentType, Limit, typed_value
from pumice.core.configuration.arguments import (
    Argument,
    Arguments,
    Catalog,
    ValuesByName,
    boolean,
    by_name,
    duration,
    ignored,
    integer,
    mapping,
    mappings,
    names,
    number,
    quantity,
    text,
    texts,
)
from pumice.core.configuration.values import (
    DEFAULT_CONFIGURATION,
    FLAG_DEFAULTS,
    Configuration,
    PluginOptions,
)
from pumice.core.configuration.volcano_reader import read_configuration

__all__ = [
    "DEFAULT_CONFIGURATION",
    "FLAG_DEFAULTS",
    "Argument",
    "ArgumentType",
    "Arguments",
    "Catalog",
    "Configuration",
    "Limit",
    "PluginOptions",
    "ValuesByName",
    "boolean",
    "by_name",
    "duration",
    "ignored",
    "integer",
    "mapping",
    "mappings",
    "names",
    "number",
    "quantity",
    "read_configuration",
    "text",
    "texts",
    "typed_value",
]
