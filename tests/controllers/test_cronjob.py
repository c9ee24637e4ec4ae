"""The CronJob controller: schedules, zones, missed times, concurrency and history."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.cronjob.controller import CronJobController
from pumice.controllers.cronjob.reconcile import Observed, reconcile
from pumice.controllers.cronjob.schedule import ScheduleError, due, parse
from pumice.controllers.cronjob.types import SCHEDULE_SINCE, CronJob, CronJobSpec, CronJobStatus
from pumice.controllers.job.types import Job, JobState, JobStatus
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.options import ControllerOptions
from pumice.controllers.runtime.acts import Create, Delete, Emit, Patch, Plan
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.controller import Caches
from pumice.controllers.runtime.objects import Metadata
from pumice.controllers.runtime.times import shown
from pumice.controllers.runtime.watches import Watch
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.running import Loops

CRONS = "cronjobs.batch.volcano.sh"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def ms(text: str) -> int:
    return int(at(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("schedule", "after", "zone", "then"),
    [
        ("* * * * *", "2026-01-01T00:00:30Z", "UTC", "2026-01-01T00:01Z"),
        ("*/15 * * * *", "2026-01-01T00:00Z", "UTC", "2026-01-01T00:15Z"),
        ("5/20 * * * *", "2026-01-01T00:26Z", "UTC", "2026-01-01T00:45Z"),
        ("0 0 29 2 *", "2026-01-01T00:00Z", "UTC", "2028-02-29T00:00Z"),
        ("0 9-17/4 * * mon-FRI", "2026-01-02T17:30Z", "UTC", "2026-01-05T09:00Z"),
        # Neither is a star: one of the two is enough.
        ("0 0 13 * 5", "2026-01-01T12:00Z", "UTC", "2026-01-02T00:00Z"),
        # A star with a step is none.
        ("0 0 */10 * 5", "2026-01-01T12:00Z", "UTC", "2026-01-02T00:00Z"),
        ("0 0 13,* * 5", "2026-01-01T12:00Z", "UTC", "2026-01-02T00:00Z"),
        ("0 0 13,* * 5", "2026-01-02T12:00Z", "UTC", "2026-01-09T00:00Z"),
        ("0 0 31 dec ?", "2026-12-31T00:00Z", "UTC", "2027-12-31T00:00Z"),
        ("@weekly", "2026-01-01T00:00Z", "UTC", "2026-01-04T00:00Z"),
        ("@every 90m", "2026-01-01T00:00Z", "UTC", "2026-01-01T01:30Z"),
        ("0 8 * * *", "2026-07-01T00:00Z", "Europe/Berlin", "2026-07-01T06:00Z"),
        # 02:30 does not exist on the day of the change to summer time.
        ("30 2 * * *", "2026-03-28T12:00Z", "Europe/Berlin", "2026-03-30T00:30Z"),
        ("30 2 * * *", "2026-10-24T12:00Z", "Europe/Berlin", "2026-10-25T00:30Z"),
        ("0 0 * * *", "2026-01-01T00:00Z", "Asia/Kathmandu", "2026-01-01T18:15Z"),
    ],
)
def test_times(schedule: str, after: str, zone: str, then: str) -> None:
    assert parse(schedule).after(at(after), ZoneInfo(zone)) == at(then)


def test_a_day_that_never_comes() -> None:
    assert parse("0 0 30 2 *").after(at("2026-01-01T00:00Z"), UTC) is None


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "a * * * *",
     "*/0 * * * *", "5-1 * * * *", "1,,2 * * * *", "@often", "@every soon", "@every -1h",
     "99999999999 * * * *", "٣ * * * *", "TZ=UTC * * * * *"],
)  # fmt: skip
def test_a_wrong_schedule_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse(text)


@pytest.mark.parametrize(
    ("schedule", "since", "now", "slot", "many"),
    [
        ("0 * * * *", "2026-01-01T00:30Z", "2026-01-01T00:59Z", None, False),
        ("0 * * * *", "2026-01-01T00:30Z", "2026-01-01T01:00Z", "2026-01-01T01:00Z", False),
        ("0 * * * *", "2026-01-01T00:30Z", "2026-01-01T05:10Z", "2026-01-01T05:00Z", False),
        ("* * * * *", "2026-01-01T00:00Z", "2026-03-01T00:00:30Z", "2026-03-01T00:00Z", True),
        ("0 0 1 1 *", "1850-01-01T00:00Z", "2026-06-01T00:00Z", "2026-01-01T00:00Z", True),
        ("@every 1s", "2026-01-01T00:00Z", "2026-03-01T00:00Z", "2026-03-01T00:00Z", True),
        ("@every 1h", "2026-01-01T00:20Z", "2026-01-01T03:00Z", "2026-01-01T02:20Z", False),
    ],
)
def test_the_newest_time_is_due(
    schedule: str, since: str, now: str, slot: str | None, many: bool
) -> None:
    found = due(parse(schedule), UTC, at(since), at(now))
    assert found.slot == (at(slot) if slot else None)
    assert found.has_missed_many == many


NOW = "2026-01-01T01:00:05Z"
SLOT_NAME = f"tick-{ms('2026-01-01T01:00Z') // 60000}"


def cron(last: str | None = "2026-01-01T00:00:00Z", **spec: Any) -> CronJob:
    metadata = Metadata(
        name="tick", namespace="ns", uid="uid-tick", creation_timestamp="2026-01-01T00:00:00Z"
    )
    template = {"metadata": {"labels": {"a": "b"}, "name": "no"}, "spec": {"tasks": []}}
    return CronJob(
        metadata,
        CronJobSpec(**{"schedule": "0 * * * *", "job_template": template, **spec}),
        CronJobStatus(last_schedule_time=last),
    )


def job(name: str, phase: str = "Running", created: str = "2026-01-01T00:00:00Z") -> Job:
    metadata = Metadata(name=name, namespace="ns", uid=f"uid-{name}", creation_timestamp=created)
    state = JobState(phase, last_transition_time="2026-01-01T00:30:00Z")
    return Job(metadata, status=JobStatus(state))


def run(made: CronJob, *jobs: Job, now: str = NOW, foreign: frozenset[str] = frozenset()) -> Any:
    plan = reconcile(Observed(made, jobs, ms(now), foreign))
    acts = [act for stage in plan.stages for act in stage]
    return (
        [act.body for act in acts if isinstance(act, Create)],
        [act.name for act in acts if isinstance(act, Delete)],
        [act.reason for act in acts if isinstance(act, Emit)],
        {k: v for act in acts if isinstance(act, Patch) for k, v in act.body["status"].items()},
        plan.again_seconds,
    )


def test_a_job_at_its_time() -> None:
    (body,), deleted, events, status, again = run(cron(time_zone="Europe/Berlin"))
    metadata = body["metadata"]
    assert metadata["name"] == SLOT_NAME
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {
        "volcano.sh/cronjob-scheduled-timestamp": "2026-01-01T02:00:00+01:00"
    }
    assert metadata["ownerReferences"][0]["kind"] == "CronJob"
    assert (deleted, events) == ([], ["SuccessfulCreate"])
    # The status follows when the Job is seen, and names it at once.
    assert status == {}
    assert again == pytest.approx(3595.1)


def test_nothing_is_due_twice() -> None:
    created, *_ = run(cron(last="2026-01-01T01:00:00Z"))
    assert created == []
    # The process ended between the creation of the Job and the status.
    created, _, events, status, _ = run(cron(), job(SLOT_NAME))
    assert (created, events) == ([], [])
    assert status["lastScheduleTime"] == "2026-01-01T01:00:00Z"
    created, _, events, status, _ = run(cron(), foreign=frozenset({SLOT_NAME}))
    assert (created, events, status) == ([], ["ForeignJob"], {})


def test_the_status_goes_from_one_active_job_to_the_next() -> None:
    """A watcher of a CronJob that forbids concurrency sees one active Job all the time."""
    made = cron(concurrency_policy="Forbid")
    made.status.active = [{"name": "tick-1", "uid": "uid-tick-1"}]
    ended = job("tick-1", "Completed")
    created, _, events, status, _ = run(made, ended)
    assert (len(created), events, status) == (1, ["SuccessfulCreate"], {})
    _, _, events, status, _ = run(made, ended, job(SLOT_NAME))
    assert events == ["SawCompletedJob"]
    assert [one["name"] for one in status["active"]] == [SLOT_NAME]
    assert run(made, job(SLOT_NAME))[2] == ["StaleReference"]


def test_concurrency() -> None:
    old = job("tick-1")
    assert len(run(cron(), old)[0]) == 1
    created, deleted, events, status, _ = run(cron(concurrency_policy="Forbid"), old)
    assert (created, deleted, events) == ([], [], ["ForbidConcurrent"])
    assert "lastScheduleTime" not in status
    created, deleted, events, _, _ = run(cron(concurrency_policy="Replace"), old)
    assert (len(created), deleted, events) == (
        1,
        ["tick-1"],
        ["ReplaceConcurrent", "SuccessfulCreate"],
    )


def test_a_job_that_replaces_others_is_created_after_they_are_deleted() -> None:
    replacing = cron(concurrency_policy="Replace")
    plan = reconcile(Observed(replacing, (job("tick-1"), job("tick-2")), ms(NOW)))
    writes = [[type(act) for act in stage if not isinstance(act, Emit)] for stage in plan.stages]
    # A stage that fails is the last one, so a Job that cannot be deleted is not joined by another.
    assert writes == [[Delete, Delete], [Create]]


def test_late_starts() -> None:
    late = "2026-01-01T01:00:31Z"
    assert run(cron(starting_deadline_seconds=30), now=late)[0] == []
    assert len(run(cron(starting_deadline_seconds=31), now=late)[0]) == 1
    _, _, events, _, _ = run(cron(schedule="* * * * *"), now="2026-01-02T00:00:00Z")
    assert events == ["TooManyMissedTimes", "SuccessfulCreate"]


def test_a_changed_schedule_begins_with_its_next_time() -> None:
    made = cron(schedule="*/5 * * * *", last="2026-01-01T00:00:00Z")
    changed = Observed(made, (), ms("2026-01-01T12:02Z"), changed_ms=ms("2026-01-01T12:01Z"))
    plan = reconcile(changed)
    ((noted,),) = plan.stages
    assert isinstance(noted, Patch)
    made.metadata.annotations = noted.body["metadata"]["annotations"]
    assert reconcile(changed) == Plan(again_seconds=plan.again_seconds)
    assert plan.again_seconds == pytest.approx(180.1)
    assert reconcile(replace(changed, now_ms=ms("2026-01-01T12:05Z"))).stages


@pytest.mark.parametrize("text", ["soon", "{}", "[]", '{"schedule": 1, "since": ""}'])
def test_an_annotation_that_cannot_be_read_is_none(text: str) -> None:
    made = cron()
    made.metadata.annotations = {SCHEDULE_SINCE: text}
    assert made.stored_change is None
    assert len(run(made)[0]) == 1


async def test_the_controller_notes_when_a_schedule_changes(
    fake_api: FakeApi, loops: Loops
) -> None:
    """A job of the old schedule's time is not started when the schedule is changed.

    Nor is it started by a process that begins later, or when the schedule is changed meanwhile.
    """

    def noted() -> str:
        held = fake_api.get(CRONS, "ns", "tick")["metadata"].get("annotations", {})
        return str(held.get(SCHEDULE_SINCE, ""))

    async def restart() -> None:
        await loops.kill()
        before = loops.metrics.counted("reconciles", result="unchanged")
        loops.start(CronJobController(ControllerOptions()))
        await until(lambda: loops.metrics.counted("reconciles", result="unchanged") > before)

    fake_api.resources.add(CRONS)
    fake_api.with_status.add(CRONS)
    spec: dict[str, Any] = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"tasks": []}}}
    body: dict[str, Any] = {"metadata": {"namespace": "ns", "name": "tick"}, "spec": spec}
    body["metadata"]["creationTimestamp"] = shown(int(time.time() * 1000))
    body["status"] = {"lastScheduleTime": "2026-01-01T00:00:00Z"}
    fake_api.put(CRONS, body)
    loops.start(CronJobController(ControllerOptions()))
    await until(lambda: loops.metrics.counted("reconciles", result="unchanged") == 1)
    fake_api.put(CRONS, {**body, "spec": {**spec, "schedule": "0 0 * * *"}})
    await until(lambda: '"0 0 * * *"' in noted())
    await restart()
    await loops.kill()
    held = fake_api.get(CRONS, "ns", "tick")
    fake_api.put(CRONS, {**held, "spec": {**spec, "schedule": "0 12 * * *"}})
    await restart()
    await until(lambda: '"0 12 * * *"' in noted())
    assert not fake_api.made("POST", "/jobs$")


def test_odd_deadlines() -> None:
    for seconds in (2**62, 10**12, 3 * 10**9):
        assert len(run(cron(starting_deadline_seconds=seconds))[0]) == 1
    assert run(cron(starting_deadline_seconds=0))[0] == []


def test_suspended_and_wrong_ones_start_nothing() -> None:
    created, _, events, _, again = run(cron(schedule="0 0 30 2 *"))
    assert (created, events, again) == ([], ["InvalidSchedule"], None)
    assert run(cron(suspend=True))[0] == []
    assert run(cron(schedule="x"))[2] == ["UnParseableCronJobSchedule"]
    for zone in ("Mars/Base", "", "LOCAL", "../etc/passwd", "Europe", "a\0b"):
        ((event,),) = reconcile(Observed(cron(time_zone=zone), (), ms(NOW))).stages
        assert isinstance(event, Emit)
        allowed = "allowed: a name such as Europe/Berlin"
        assert (event.reason, event.message) == (
            "InvalidTimeZone",
            f"spec.timeZone: {zone!r} is unknown; {allowed}",
        )


def test_history_and_status() -> None:
    jobs = [job(f"tick-{n}", "Completed", f"2026-01-01T00:0{n}:00Z") for n in range(5)]
    jobs += [job("tick-5", "Failed"), job("tick-6", "Terminated", "2026-01-01T00:10:00Z")]
    jobs += [job("tick-7")]
    made = cron(last="2026-01-01T01:00:00Z")
    _, deleted, events, status, _ = run(made, *jobs)
    assert deleted == ["tick-0", "tick-1", "tick-5"]
    assert events == ["SuccessfulDelete"] * 3
    assert [one["name"] for one in status["active"]] == ["tick-7"]
    assert status["lastSuccessfulTime"] == "2026-01-01T00:30:00Z"
    made.status.active, made.status.last_successful_time = status["active"], "2026-01-01T00:30:00Z"
    assert run(made, *jobs[2:5], jobs[6], jobs[7])[:4] == ([], [], [], {})
    assert run(cron(last="2026-01-01T01:00:00Z", successful_jobs_history_limit=0), *jobs[:2])[1]


def test_only_jobs_with_names_of_a_cron_job_can_be_in_its_way() -> None:
    controller, metrics = CronJobController(ControllerOptions()), Metrics(CONTROLLER_SERIES)
    by_watch: dict[Watch[Any], ObjectCache[Any]] = {
        watch: ObjectCache(watch, metrics) for watch in controller.watches
    }
    crons, jobs = by_watch.values()

    def put(cache: ObjectCache[Any], name: str, namespace: str = "ns", **more: Any) -> None:
        metadata = {"name": name, "namespace": namespace, "uid": f"{namespace} {name}", **more}
        cache.assume(msgspec.json.encode({"metadata": {**metadata, "resourceVersion": "1"}}))

    put(crons, "c")
    for name in ("c-1", "c-x", "c-d-2", "d-3", "c"):
        put(jobs, name)
    put(jobs, "c-5", "other")
    owner = {"uid": "ns c", "controller": True}
    put(jobs, "c-4", ownerReferences=[owner])
    observed = controller.observe(("ns", "c"), Caches(by_watch), 0)
    assert observed is not None
    assert observed.foreign == {"c-1"}
    assert [one.metadata.name for one in observed.jobs] == ["c-4"]
