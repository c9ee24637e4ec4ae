"""Taints, and nodes that are marked as unschedulable."""

from __future__ import annotations

import numpy as np

from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.pod import PodSpec
from pumice.core.model.selectors import Taint, TaintEffect
from pumice.core.session.session import Session

_UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)

UNSCHEDULABLE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"


def unschedulable_refusal(session: Session, spec: PodSpec) -> Refusal:
    return Refusal(UNSCHEDULABLE, _unschedulable(session, spec), unresolvable=True)


def _unschedulable(session: Session, spec: PodSpec) -> Mask:
    if any(t.tolerates(_UNSCHEDULABLE_TAINT) for t in spec.tolerations):
        return np.zeros(len(session.table), dtype=np.bool_)
    return session.labels.unschedulable()


def taint_refusal(session: Session, spec: PodSpec) -> Refusal:
    return Refusal(TAINTED, session.labels.repels(spec.tolerations), unresolvable=True)
