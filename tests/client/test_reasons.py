"""Reasons as the client library words them."""

from pumice.client.reasons import told
from pumice.v1.reason_pb2 import REASON_CODE_QUEUE_QUOTA, QueueLimit, Reason

GIB = 2**30


def test_a_full_queue_is_told_with_what_is_asked_used_and_allowed() -> None:
    cpu = QueueLimit(queue="team", resource="cpu", asked=1500, used=1000, allowed=2000)
    memory = QueueLimit(queue="team", resource="memory", asked=GIB, used=2 * GIB, allowed=2 * GIB)
    reason = Reason(
        author="allocate", code=REASON_CODE_QUEUE_QUOTA, task="job-1", limits=[cpu, memory]
    )
    assert told(reason) == (
        "allocate: job-1: above the queue's limit (cpu of queue team: 1.5 asked, 1 of 2 used;"
        " memory of queue team: 1.0Gi asked, 2.0Gi of 2.0Gi used)"
    )


def test_one_of_which_no_more_is_known_names_what_there_is() -> None:
    reason = Reason(author="capacity", code=REASON_CODE_QUEUE_QUOTA, subjects=["cpu"])
    assert told(reason) == "capacity: above the queue's limit (cpu)"
