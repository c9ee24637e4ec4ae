"""The texts of reasons."""

from pumice.client.enums import ReasonCode
from pumice.client.reasons import NodeCount, QueueLimit, Reason, why

GIB = 2**30


def test_a_full_queue_is_told_with_what_is_asked_used_and_allowed() -> None:
    cpu = QueueLimit("team", "cpu", asked=1500, used=1000, allowed=2000)
    memory = QueueLimit("team", "memory", asked=GIB, used=2 * GIB, allowed=2 * GIB)
    reason = Reason("allocate", ReasonCode.QUEUE_QUOTA, task="job-1", limits=(cpu, memory))
    assert str(reason) == (
        "allocate: job-1: above the queue's limit (cpu of queue team: 1.5 asked, 1 of 2 used;"
        " memory of queue team: 1Gi asked, 2Gi of 2Gi used)"
    )


def test_one_of_which_no_more_is_known_names_what_there_is() -> None:
    reason = Reason("capacity", ReasonCode.QUEUE_QUOTA, subjects=("cpu",))
    assert str(reason) == "capacity: above the queue's limit (cpu)"


def test_tasks_with_the_same_reason_share_it() -> None:
    no_room = (NodeCount("Insufficient cpu", 3),)
    same = [
        Reason("allocate", ReasonCode.NO_NODE_FITS, task=f"job-{n}", nodes=no_room)
        for n in range(4)
    ]
    other = Reason("gang", ReasonCode.GANG_SHORT, have=0, need=4)
    assert why([*same, other]) == (
        "allocate: job-0 and 3 more: no node fits: 3 Insufficient cpu; gang: 0/4 tasks fit"
    )


def test_every_code_has_a_text() -> None:
    for code in ReasonCode:
        assert Reason("x", code).text
