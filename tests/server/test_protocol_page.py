"""The page about the protocol says what the code does."""

import re
from pathlib import Path

from pumice.adapters.runtime.stream_end import BY_REASON, NextStep, end_of_goaway
from pumice.server.digests import KindSums, hash64
from pumice.server.limits import Limits
from pumice.server.responses import MAX_WARNINGS
from pumice.server.status import ERROR_CODES, reason_name
from pumice.v1.cluster_service_pb2 import GoAway, GoAwayReason
from pumice.v1.decision_pb2 import OutcomeCode
from pumice.v1.delta_pb2 import Op
from pumice.v1.error_pb2 import ErrorReason
from tests.server.transcript import transcript

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
# The first reason of a question; reasons below can end a stream.
FIRST_OF_QUESTIONS = ErrorReason.ERROR_REASON_CLUSTER_UNKNOWN
STEPS = {
    NextStep.AGAIN: "connect again",
    NextStep.NEW_INCARNATION: "new incarnation",
    NextStep.NEW_EPOCH: "higher epoch: win the lease again, with a new incarnation",
    NextStep.STOP_REFUSED: "stop",
    NextStep.STOP_REPLACED: "stop: another process uses the same `adapter_id`",
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table with this first row."""
    lines = PAGE[PAGE.index(heading) :].splitlines()[2:]
    table = lines[: next(n for n, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def unquoted(cell: str) -> str:
    return cell.strip("| `")


async def test_the_conversation_is_one_that_took_place() -> None:
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    told = await transcript()
    assert shown.splitlines() == told, "run 'python -m tests.server.transcript'"


def test_every_reason_that_ends_a_stream_has_a_next_step() -> None:
    codes = {reason: code.name for code, reason in ERROR_CODES.values()}
    shown = {(unquoted(c), unquoted(r)): unquoted(step) for c, r, step in rows("| status | reason")}
    assert shown == {
        (codes[reason], reason_name(reason)): STEPS[step] for reason, step in BY_REASON.items()
    }
    numbers = set(ErrorReason.values()) - {0}
    assert set(BY_REASON) == {number for number in numbers if number < FIRST_OF_QUESTIONS}


def test_every_goaway_has_a_next_step() -> None:
    shown = {unquoted(reason): step.strip("| ") for reason, step in rows("| GoAway |")}
    assert set(shown) == {*GoAwayReason.keys()[1:], "any other"}
    for name, step in shown.items():
        number = 99 if name == "any other" else GoAwayReason.Value(name)
        meant = end_of_goaway(GoAway(reason=number)).next  # type: ignore[arg-type]
        words = {NextStep.NEW_EPOCH: "win the lease again", NextStep.AGAIN: "connect again"}
        assert step.startswith(words.get(meant, STEPS[meant]))


def test_ops_and_outcomes_are_all_there() -> None:
    assert {unquoted(name) for name, _ in rows("| op |")} == set(Op.DESCRIPTOR.fields_by_name)
    shown = {unquoted(name) for name, *_ in rows("| code |")}
    assert shown == set(OutcomeCode.keys()[1:])


def test_the_worked_example_of_digests_is_right() -> None:
    sums = KindSums()
    total = 0
    for uid, revision, data, number in rows("| uid | revision"):
        name, version = unquoted(uid), int(unquoted(revision))
        assert f"{name}\0{version}".encode().hex() == unquoted(data)
        assert int.from_bytes(hash64(name, version), "big") == int(unquoted(number))
        if name.startswith("pod"):
            sums.put(2, name, version)
            total += int(unquoted(number))
    (digest,) = sums.write()
    assert f"count {digest.count} and sum {digest.sum}" in PAGE
    assert total - 2**64 == digest.sum


def test_limits_are_those_of_a_core() -> None:
    limits = Limits()
    second = 10**9
    shown = [unquoted(row[1]) for row in rows("| limit | default")]
    assert shown == [
        str(limits.max_message_bytes),
        str(limits.batch_bytes),
        str(limits.credit),
        str(limits.credit_bytes),
        f"{limits.hello_timeout_ns // second} s",
        str(limits.cluster_objects),
        str(limits.large_object_bytes),
        f"{limits.digest_interval_ns // second} s",
        f"{limits.snapshot_timeout_ns // second} s",
        str(limits.streams_per_peer),
        str(limits.snapshots_per_peer),
        str(limits.max_clusters),
        str(limits.outgoing_bytes),
        f"{limits.epoch_ahead_ms // 1000} s",
        str(MAX_WARNINGS),
    ]
