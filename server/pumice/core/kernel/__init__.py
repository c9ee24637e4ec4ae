"""Arithmetic over rows of the node table, compiled where a compiler was available.

``rows`` is None where there was none, or where it was compiled from another version of its source,
and NumPy does the same work with the same results.
"""

from __future__ import annotations

from types import ModuleType

# What the source says too.
VERSION = 6

rows: ModuleType | None
try:
    from pumice.core.kernel import _rows
except ImportError:
    rows = None
else:
    rows = _rows if _rows.VERSION == VERSION else None
