"""Events about binds that succeeded or failed."""

from pumice.adapters.runtime.outcomes import Verdict
from pumice.v1.decision_pb2 import OUTCOME_CODE_APPLIED, OUTCOME_CODE_FAILED, Bind, Evict
from pumice.v1.object_pb2 import KIND_POD
from pumice.v1.status_pb2 import Event


def event_of(order: Bind | Evict, verdict: Verdict) -> Event | None:
    """The event on the pod; None: the core reports it, or there is nothing to report."""
    if isinstance(order, Evict):
        return None
    event = Event(kind=KIND_POD, namespace=order.namespace, name=order.name, uid=order.uid)
    if verdict.code == OUTCOME_CODE_APPLIED:
        event.reason = "Scheduled"
        event.message = f"Successfully assigned {order.namespace}/{order.name} to {order.node}"
        return event
    if verdict.code == OUTCOME_CODE_FAILED:
        event.warning = True
        event.reason = "FailedScheduling"
        event.message = f"could not be bound to {order.node}: {verdict.reason}"
        return event
    return None
