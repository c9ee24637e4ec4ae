"""The scheduler configuration: its value, its schema, and the strict readers of its files."""

from pumice.core.configuration.kube_batch import (
    KUBE_BATCH_DEFAULT,
    read_kube_batch_configuration,
)
from pumice.core.configuration.reader import read_configuration
from pumice.core.configuration.schema import (
    ArgumentSchema,
    ArgumentType,
    Catalog,
    Limit,
    typed_value,
)
from pumice.core.configuration.values import (
    FLAG_DEFAULTS,
    Arguments,
    Configuration,
    PluginOptions,
)

__all__ = [
    "FLAG_DEFAULTS",
    "KUBE_BATCH_DEFAULT",
    "ArgumentSchema",
    "ArgumentType",
    "Arguments",
    "Catalog",
    "Configuration",
    "Limit",
    "PluginOptions",
    "read_configuration",
    "read_kube_batch_configuration",
    "typed_value",
]
