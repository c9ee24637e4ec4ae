"""The measured usage of nodes, as adapters report it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.nodes import Floats
from pumice.core.model.fit import Mask

if TYPE_CHECKING:
    from pumice.core.session.session import Session

# The name of the data that adapters report by node: percent of cpu and memory, and the Unix time of
# the measurement in seconds.
USAGE = "usage"
# Older measurements are ignored.
MAX_AGE_SECONDS = 300
_NS = 10**9
# The inaccuracy of seconds as floats is smaller.
_MARGIN_NS = 10**6


class NodeUsage:
    """Percent of cpu and memory in use by row, and whether the measurement is recent."""

    def __init__(self, session: Session) -> None:
        self._data = session.data(USAGE)
        self._now = session.now_ns / _NS
        self._layout = session.table.layout
        rows = self._data.rows(("cpu", "memory", "time"), session.table.names, self._layout)
        self.times: Floats = rows[2]
        # Nodes that were never measured have 0.
        self.cpu: Floats = np.nan_to_num(rows[0])
        self.memory: Floats = np.nan_to_num(rows[1])
        self.known: Mask = ~np.isnan(self.times)
        # A comparison with an unknown time, which is NaN, is false.
        self.fresh: Mask = self._now - self.times <= MAX_AGE_SECONDS

    def version(self) -> Hashable:
        """A value that differs when measurements change or become too old."""
        return (self._data.version, self._layout, self.fresh.tobytes())

    def first_expiry_ns(self) -> int | None:
        """When the oldest of the fresh measurements becomes too old; None: none is fresh."""
        if not self.fresh.any():
            return None
        return int((float(self.times[self.fresh].min()) + MAX_AGE_SECONDS) * _NS) + _MARGIN_NS
