"""Host ports: one pod a port, protocol and address of a node."""

from __future__ import annotations

import numpy as np

from pumice.core.model.fit import Refusal
from pumice.core.model.pod import HostPort
from pumice.core.session.session import Session

ANY_ADDRESS = "0.0.0.0"
CONFLICT = "node(s) didn't have free ports for the requested pod ports"


def port_refusal(session: Session, wanted: tuple[HostPort, ...]) -> Refusal:
    taken = np.zeros(len(session.table), dtype=np.bool_)
    for port in wanted:
        for address, pods in session.cache.pods.users_of_port(port).items():
            if ANY_ADDRESS in (address, port.ip) or address == port.ip:
                taken |= pods > 0
    return Refusal(CONFLICT, taken, unresolvable=False)
