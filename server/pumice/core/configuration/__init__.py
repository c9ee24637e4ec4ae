"""The scheduler configuration: its value, its schema, and the strict readers of its files."""

from pumice.core.configuration.reader import read_configuration
from pumice.core.configuration.schema import (
    ArgumentSchema,
    ArgumentType,
    Catalog,
    Limit,
    typed_value,
)
from pumice.core.configuration.values import (
    DEFAULT_CONFIGURATION,
    FLAG_DEFAULTS,
    Arguments,
    Configuration,
    PluginOptions,
)

__all__ = [
    "DEFAULT_CONFIGURATION",
    "FLAG_DEFAULTS",
    "ArgumentSchema",
    "ArgumentType",
    "Arguments",
    "Catalog",
    "Configuration",
    "Limit",
    "PluginOptions",
    "read_configuration",
    "typed_value",
]
