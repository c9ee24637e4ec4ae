"""Work that is lost because pods were evicted before they finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pumice.evaluation.amounts import in_units
from pumice.recordings.pod_records import PodRecord

_SECOND_NS = 1_000_000_000


def lost_work(members: Sequence[PodRecord], enough: int, end_ns: int) -> dict[str, float]:
    """Requests times seconds of runs that an eviction ended, by resource.

    The eviction of a pod loses the pod's run. If fewer than ``enough`` pods of the job are left,
    the job starts again, so the runs of the other pods are lost too.
    """
    if not any(record.evicted_ns for record in members):
        return {}
    lost: dict[str, float] = {}
    # Running pods, and the time since which their work counts.
    since: dict[str, int] = {}
    by_uid = {record.uid: record for record in members}
    for at_ns, begins, uid in sorted(_steps(members, end_ns)):
        record = by_uid[uid]
        if begins:
            since[uid] = at_ns
            continue
        begun_ns = since.pop(uid, at_ns)
        if not record.evicted_ns or record.finished_ns:
            continue
        _add(lost, record, at_ns - begun_ns)
        if len(since) == enough - 1:
            for other, other_ns in since.items():
                _add(lost, by_uid[other], at_ns - other_ns)
            since = dict.fromkeys(since, at_ns)
    return {name: round(amount, 3) for name, amount in sorted(lost.items())}


def _steps(members: Iterable[PodRecord], end_ns: int) -> Iterable[tuple[int, bool, str]]:
    for record in members:
        if record.running_ns:
            yield record.running_ns, True, record.uid
            stops_ns = record.finished_ns or record.terminating_ns or record.gone_ns or end_ns
            yield max(stops_ns, record.running_ns + 1), False, record.uid


def _add(lost: dict[str, float], record: PodRecord, run_ns: int) -> None:
    for name, amount in record.pod.spec.requests.items():
        if name != "pods" and amount:
            lost[name] = lost.get(name, 0.0) + in_units(name, amount) * run_ns / _SECOND_NS
