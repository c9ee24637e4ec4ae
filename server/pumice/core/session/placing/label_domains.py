"""Nodes with equal values of a label, as domains of jobs that must stay within one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.jobs import Job
from pumice.core.model.fit import Mask
from pumice.core.model.status import HOLDS_RESOURCES

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class LabelDomains:
    """Domains by name, which is that of the label and its value; no HyperNode has such a name."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By label: the names of its domains by value.
        self._names: dict[str, dict[str, str]] = {}
        self._positions: dict[str, NDArray[np.intp]] = {}
        self._rows: dict[str, Mask] = {}
        # By job: the domains of one that is placed, to the end of the session.
        self._kept: dict[str, list[str]] = {}

    def __contains__(self, domain: str) -> bool:
        return domain in self._positions

    def positions_of(self, domain: str) -> NDArray[np.intp]:
        return self._positions[domain]

    def rows_of(self, domain: str) -> Mask:
        rows = self._rows.get(domain)
        if rows is None:
            rows = self._rows[domain] = np.zeros(len(self._session.table), dtype=np.bool_)
            rows[self._positions[domain]] = True
            rows.setflags(write=False)
        return rows

    def of(self, job: Job) -> list[str]:
        """The domains that the job may be placed in: the one that it is in, or else all of them."""
        known = self._kept.get(job.id)
        if known is None:
            names, inside = self._named(job.topology_key), self._occupied(job)
            if not inside:
                return sorted(names.values())
            value = next(iter(inside))
            known = [names[value]] if len(inside) == 1 and value in names else []
            self._kept[job.id] = known
        return known

    def within(self, job: Job) -> Mask:
        """The nodes of all these domains."""
        rows = np.zeros(len(self._session.table), dtype=np.bool_)
        for domain in self.of(job):
            rows[self._positions[domain]] = True
        return rows

    def problem(self, job: Job) -> str:
        """What is wrong with all nodes where there is no domain for the job; empty: there is one."""
        key = job.topology_key
        if not self._named(key):
            return f"node(s) didn't have the label {key}"
        return "" if self.of(job) else f"pods of the job have no or several values of label {key}"

    def _named(self, key: str) -> dict[str, str]:
        known = self._names.get(key)
        if known is None:
            column = self._session.labels.column(key)
            order = np.argsort(column.codes, kind="stable")
            codes = column.codes[order]
            known = self._names[key] = {}
            for value, code in column.values.items():
                first, last = np.searchsorted(codes, (code, code + 1))
                if first < last:
                    known[value] = f"{key}={value}"
                    self._positions[known[value]] = order[first:last]
        return known

    def _occupied(self, job: Job) -> set[str | None]:
        """The values of the label on nodes that have pods of the job."""
        found: set[str | None] = set()
        entries = self._session.table.entries
        for task in job.index:
            entry = entries.get(task.node_name)
            # Of nodes that are gone nobody knows the domain.
            if task.status in HOLDS_RESOURCES and entry is not None and entry.node is not None:
                found.add(entry.node.labels.get(job.topology_key))
        return found
