"""The Common Expression Language, as far as device selectors use it.

An expression that cannot be parsed, or uses an unknown function, is an error; it is neither true nor
false.
"""

from pumice.core.cel.expressions import MAX_LENGTH, Expression, compiled
from pumice.core.cel.values import CelError, MapValue, Quantity, Semver

__all__ = ["MAX_LENGTH", "CelError", "Expression", "MapValue", "Quantity", "Semver", "compiled"]
