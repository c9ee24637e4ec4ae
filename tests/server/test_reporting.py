"""What the log says about configurations and objects."""

import pytest

from pumice.server.metrics import Metrics
from pumice.server.reporting import MAX_LINES, ClusterReporter
from pumice.v1 import cluster_service_pb2, configuration_pb2, object_pb2
from tests.server.running import RunningCore, configuration, node, queue

Problem = configuration_pb2.ConfigurationProblem
GOOD = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


async def test_warnings_are_not_called_refusals(
    core: RunningCore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    text = GOOD + "percentageNodesToFind: 50\n"
    given = configuration(text, source="ConfigMap a/b")
    await core.served([queue(), node("n1")], given)
    lines = [line for line in said(caplog) if "configuration" in line[1]]
    assert [level for level, _ in lines] == ["INFO", "WARNING"]
    assert lines[0][1].endswith(" from ConfigMap a/b is in use")
    assert lines[1][1].startswith("c1: configuration warning: line 5: percentageNodesToFind")


async def test_without_any_configuration_the_log_does_not_speak_of_a_last_good_one(
    core: RunningCore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    adapter = await core.served([queue(), node("n1")], configuration("actions: [\n"))
    assert ("ERROR", "c1: configuration refused; no other one is in use") in said(caplog)
    assert core.metric("pumice_configuration_refused") == 1
    await adapter.configure(configuration(GOOD))
    assert core.metric("pumice_configuration_refused") == 0
    assert core.metric("pumice_configuration_timestamp_seconds") == 1_800_000_000
    core.clock.advance(10)
    caplog.clear()
    await adapter.configure(configuration("actions: [\n"))
    (refused,) = [text for _, text in said(caplog) if "refused" in text]
    assert refused.endswith("stays in use")
    # The same configuration again is in use since it was first accepted.
    await adapter.configure(configuration(GOOD))
    assert core.metric("pumice_configuration_timestamp_seconds") == 1_800_000_000


def test_lines_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    reporter = ClusterReporter("c1", Metrics())
    rejected = [object_pb2.RejectedObject(uid=str(n)) for n in range(MAX_LINES + 3)]
    reporter.applied(100, rejected, 100)
    assert len(caplog.records) == MAX_LINES + 1
    assert caplog.records[-1].getMessage() == "c1: rejected ... and 3 more"
    caplog.clear()
    problems = [Problem(problem=str(number)) for number in range(MAX_LINES + 1)]
    reporter.configured(cluster_service_pb2.ConfigurationResult(problems=problems), "", 1)
    assert len(caplog.records) == MAX_LINES + 2
