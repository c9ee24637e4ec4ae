"""Host ports: one pod a port, protocol and address of a node."""

from __future__ import annotations

import numpy as np

from pumice.core.model.fit import Refusal
from pumice.core.model.pod import HostPort
from pumice.core.session.session import Session

CONFLICT = "node(s) didn't have free ports for the requested pod ports"


def port_refusal(session: Session, wanted: tuple[HostPort, ...]) -> Refusal:
    taken = np.zeros(len(session.table), dtype=np.bool_)
    for port in wanted:
        taken[session.cache.pods.rows_with_port(port)] = True
    return Refusal(CONFLICT, taken, unresolvable=False)
