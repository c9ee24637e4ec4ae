"""Work that trials share changes no answer, and is done once for an unchanged cluster."""

import pytest

from pumice.core.engine import Engine
from pumice.server.local import LocalCore
from pumice.server.state import ClusterState
from pumice.server.whatif import trial
from pumice.server.whatif.replica import Replica
from pumice.v1.scheduling_service_pb2 import ScheduleResponse
from tests.server.asking import NOW_NS, job, live
from tests.server.running import gang, node, queue


def state_of(waiting: int) -> ClusterState:
    core = LocalCore()
    core.upsert(queue(), *(node(f"n{number}") for number in range(4)))
    core.upsert(
        *(item for number in range(waiting) for item in gang(f"w{number}", 9, 1000 + number))
    )
    core.session(NOW_NS)
    state = ClusterState(core._state._registry)
    state.configure(core.configuration)
    state.engine.restore(core._state.engine.checkpoint())
    return state


def replica_of(state: ClusterState) -> Replica:
    replica = Replica()
    replica.follow(state)
    return replica


def answer_of(state: ClusterState) -> ScheduleResponse:
    response = trial.run_trial(state, live(job("mine", 3), own_only=True), NOW_NS + 10**9)
    for session in response.sessions:
        session.ClearField("duration")
        session.ClearField("work")
        session.ClearField("timings")
    return response


def test_a_warm_cluster_gives_the_answer_of_a_cold_one() -> None:
    cold, warm = state_of(6), state_of(6)
    replica_of(warm).warm(NOW_NS)
    assert answer_of(warm) == answer_of(cold)


def test_an_unchanged_cluster_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state, looks = state_of(2), []
    monkeypatch.setattr(Engine, "inspect", lambda *_: looks.append(1))
    replica = replica_of(state)
    replica.warm(NOW_NS)
    replica.warm(NOW_NS)
    assert len(looks) == 1
    state.engine.cache.version += 1
    replica.warm(NOW_NS)
    assert len(looks) == 2


def test_a_plugin_that_fails_does_not_end_the_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a plugin")

    monkeypatch.setattr(Engine, "inspect", fail)
    replica_of(state_of(1)).warm(NOW_NS)
