"""tdm: windows, revocable nodes, and whom it evicts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pumice.core.configuration import Arguments, Configuration, PluginOptions, read_configuration
from pumice.core.decisions import Evict
from pumice.core.deltas import ClusterObject, Upserted
from pumice.core.engine import Engine
from pumice.core.errors import ConfigurationError
from pumice.core.plugins.tdm import (
    MAX_UNAVAILABLE,
    MIN_AVAILABLE,
    NOT_REVOCABLE,
    REVOCABLE_ZONE,
    Window,
    max_evictions,
    offset_seconds,
)
from pumice.core.registry import Registry
from pumice.core.session.hooks import REJECT
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names, options

MINUTE, HOUR = 60, 3600
SECOND_NS = 10**9
MIDNIGHT_NS = NOW_NS - NOW_NS % (86_400 * SECOND_NS)


@pytest.mark.parametrize(
    ("text", "active", "inactive"),
    [
        ("10:00-21:00", [10 * HOUR, 21 * HOUR], [10 * HOUR - 1, 21 * HOUR + 1, 0]),
        ("22:00-06:00", [22 * HOUR, 0, 6 * HOUR, 86_399], [6 * HOUR + 1, 22 * HOUR - 1]),
        ("08:00-08:00", [8 * HOUR, 0, 20 * HOUR], []),
        (" 0:00-23:59 ", [0, 86_340], [86_341]),
    ],
)
def test_a_window_is_a_part_of_the_day(text: str, active: list[int], inactive: list[int]) -> None:
    window = Window.of(text)
    assert window is not None
    assert all(map(window.is_active, active))
    assert not any(map(window.is_active, inactive))


@pytest.mark.parametrize("text", ["", "10:00", "10:00-24:00", "1000-1100", "10:60-11:00", "a-b"])
def test_other_texts_are_no_window(text: str) -> None:
    assert Window.of(text) is None


@pytest.mark.parametrize("seed", range(20))
def test_nothing_changes_before_the_next_change(seed: int) -> None:
    rng = random.Random(seed)
    window = Window.of(
        f"{rng.randrange(24):02}:{rng.randrange(60):02}-{rng.randrange(24):02}:{rng.randrange(60):02}"
    )
    assert window is not None
    second = rng.randrange(86_400)
    ahead = window.next_change(second)
    for later in (0, ahead - 1, rng.randrange(ahead)):
        assert window.is_active((second + later) % 86_400) == window.is_active(second)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("tdm.revocable-zone.a", "10-11"),
        ("tdm.revocable-zone.a", 5),
        ("tdm.evict.period", "often"),
        ("tdm.utc-offset", "CET"),
    ],
)
def test_what_cannot_be_read_is_refused(argument: str, value: object) -> None:
    entry = {"name": "tdm", "arguments": {argument: value}}
    data = {"actions": "allocate", "tiers": [{"plugins": [entry]}]}
    with pytest.raises(ConfigurationError, match="tdm"):
        read_configuration(data, Registry().catalog())


def test_the_offset_moves_the_windows() -> None:
    assert (offset_seconds("+08:00"), offset_seconds("-03:30")) == (8 * HOUR, -12_600)
    # 02:00 UTC is 10:00 eight hours ahead.
    for offset, fits in (("+08:00", True), ("+00:00", False)):
        session = _opened(2 * HOUR, revocable=True, tdm__utc_offset=offset)
        assert bool(session.session.view(session.task("a-0")).open.any()) is fits


def _opened(second: int, *, revocable: bool, **arguments: Any) -> Opened:
    given = {key.replace("utc_offset", "utc-offset"): value for key, value in arguments.items()}
    given["tdm__revocable-zone__day"] = "10:00-12:00"
    zone = {REVOCABLE_ZONE: "day"}
    return Opened(
        queue(),
        node("n1", labels=zone),
        pod_group("a"),
        pod("a-0", "a", revocable_zone="*" if revocable else ""),
        plugins=[options("tdm", **given)],
        now_ns=MIDNIGHT_NS + second * SECOND_NS,
    )


@pytest.mark.parametrize(
    ("second", "revocable", "reason"),
    [
        (9 * HOUR, True, "current time beyond revocable zone day:10:00-12:00"),
        (11 * HOUR, False, NOT_REVOCABLE),
        (11 * HOUR, True, ""),
    ],
)
def test_revocable_nodes_are_for_revocable_pods_in_their_window(
    second: int, revocable: bool, reason: str
) -> None:
    session = _opened(second, revocable=revocable)
    view = session.session.view(session.task("a-0"))
    found = [r.reason for r in view.class_refusals()["tdm"] if r.rows.any()]
    assert found == ([reason] if reason else [])
    assert view.class_scores()[0][1].tolist() == [0.0 if reason else 100.0]


def test_a_zone_without_a_window_is_never_active() -> None:
    objects = [queue(), node("n1", labels={REVOCABLE_ZONE: "x"}), *job("a", 1)]
    session = Opened(*objects, plugins=["tdm"])
    (refusal,) = session.session.view(session.task("a-0")).class_refusals()["tdm"]
    assert refusal.reason == "revocable zone x not support"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, 1),
        ({MIN_AVAILABLE: "2"}, 2),
        ({MIN_AVAILABLE: "9"}, 1),
        ({MIN_AVAILABLE: "50%"}, 2),
        ({MIN_AVAILABLE: "bad"}, 4),
        ({MAX_UNAVAILABLE: "3"}, 3),
        ({MAX_UNAVAILABLE: "26%"}, 2),
        ({MAX_UNAVAILABLE: "0"}, 0),
        ({MAX_UNAVAILABLE: "-1"}, 0),
        ({MIN_AVAILABLE: "3", MAX_UNAVAILABLE: "4"}, 1),
    ],
)
def test_a_job_loses_as_many_pods_as_its_budget_allows(
    annotations: dict[str, str], expected: int
) -> None:
    objects = job("a", 4, on="n1", annotations=annotations)
    session = Opened(queue(), node("n1"), *objects, plugins=["tdm"])
    assert max_evictions(session.job("a")) == expected


def test_preemptable_pods_preempt_nobody() -> None:
    objects = [*job("low", 2, on="n1"), pod_group("p"), pod("p-0", "p", preemptable=True)]
    session = Opened(queue(), node("n1"), *objects, plugins=["tdm"])
    found, vote = session.hooks.preemptable["tdm"](session.task("p-0"), session.tasks("low-0"))
    assert (found, vote) == ([], REJECT)


def test_pods_on_revocable_nodes_are_not_preempted() -> None:
    objects = [
        node("n1"),
        node("n2", labels={REVOCABLE_ZONE: "z"}),
        *job("a", 1, on="n1"),
        *job("b", 1, on="n2"),
        pod_group("p"),
        pod("p-0", "p", preemptable=False),
    ]
    session = Opened(queue(), *objects, plugins=["tdm"])
    found, _ = session.hooks.preemptable["tdm"](session.task("p-0"), session.tasks("a-0", "b-0"))
    assert names(found) == ["a-0"]


def evicting(period: str) -> Engine:
    arguments = {"tdm.revocable-zone.z": "02:00-03:00", "tdm.evict.period": period}
    tier = (PluginOptions("tdm", arguments=Arguments(arguments)),)
    engine = Engine(Configuration(("shuffle",), (tier,)))
    objects = [queue(), node("n1", labels={REVOCABLE_ZONE: "z"}), *job("a", 3, on="n1")]
    return fill(engine, *objects)


def evicted(engine: Engine, now_ns: int) -> list[str]:
    return [d.name for d in engine.schedule(now_ns).decisions if isinstance(d, Evict)]


def test_pods_are_evicted_once_in_a_period_when_the_window_is_over() -> None:
    engine = evicting("1m")
    assert evicted(engine, NOW_NS) == ["a-0"]
    assert evicted(engine, NOW_NS + 59 * SECOND_NS) == []
    assert engine.next_wake(NOW_NS) == NOW_NS + 60 * SECOND_NS
    assert evicted(engine, NOW_NS + 60 * SECOND_NS) == ["a-1"]


def test_a_restored_engine_keeps_the_period() -> None:
    engine = evicting("1m")
    evicted(engine, NOW_NS)
    again = evicting("1m")
    again.restore(engine.checkpoint())
    assert evicted(again, NOW_NS + SECOND_NS) == []
    assert evicted(again, NOW_NS + 60 * SECOND_NS) == ["a-1"]


def test_without_windows_nothing_wakes_a_session() -> None:
    engine = fill(Engine(Configuration(("allocate",), ((PluginOptions("tdm"),),))), queue())
    engine.schedule(NOW_NS)
    assert engine.next_wake(NOW_NS) is None


def test_a_session_runs_when_the_window_begins() -> None:
    arguments = Arguments({"tdm.revocable-zone.z": "12:30-13:00"})
    tiers = (
        tuple(PluginOptions(n) for n in ("gang", "predicates")),
        (PluginOptions("tdm", arguments=arguments),),
    )
    objects: list[ClusterObject] = [
        queue(),
        node("n1", labels={REVOCABLE_ZONE: "z"}),
        pod_group("a"),
    ]
    engine = fill(Engine(Configuration(("allocate",), tiers)), *objects)
    engine.apply([Upserted(pod("a-0", "a", revocable_zone="*"))])
    noon = MIDNIGHT_NS + 12 * HOUR * SECOND_NS
    engine.schedule(noon)
    engine.schedule(noon + 1)
    assert engine.can_skip(noon + 2)
    wake = engine.next_wake(noon)
    assert wake == noon + 30 * MINUTE * SECOND_NS
    assert not engine.can_skip(wake)
    assert len(engine.schedule(wake).decisions) == 1
