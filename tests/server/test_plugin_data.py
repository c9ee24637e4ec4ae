"""What adapters bring for plugins: taken in, limited, recorded, and restored."""

from __future__ import annotations

import pytest

from pumice.core.cache import plugin_data
from pumice.core.engine import Engine
from pumice.core.registry import Registry
from pumice.server.local import LocalCore
from pumice.server.ops import OpReader
from pumice.server.recording.checkpoints import StateCheckpoint, restore
from pumice.server.state import ClusterState
from pumice.server.wire import ObjectReader
from pumice.server.wire.deltas import MAX_TEXT, MAX_VALUES
from pumice.v1.delta_pb2 import Op, PluginData


def usage(node: str, **numbers: float) -> PluginData:
    return PluginData(plugin="usage", name=node, numbers=numbers)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (PluginData(name="n1"), "plugin"),
        (PluginData(plugin="usage"), "plugin"),
        (usage("n1", cpu=float("nan")), "numbers[cpu]"),
        (usage("n1", cpu=float("inf")), "numbers[cpu]"),
        (usage("n1", **{f"k{i}": 1.0 for i in range(MAX_VALUES + 1)}), "numbers"),
        (PluginData(plugin="p", name="n", texts={"t": "x" * MAX_TEXT}), "texts"),
        (PluginData(plugin="p", name="n" * (MAX_TEXT + 1), texts={"t": "x"}), "texts"),
    ],
)
def test_data_beyond_its_limits_is_set_aside(data: PluginData, field: str) -> None:
    (rejected,) = LocalCore().bring(data)
    assert rejected.field == field


def test_the_number_of_names_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_data, "MAX_NAMES", 2)
    core = LocalCore()
    assert core.bring(usage("a", cpu=1), usage("b", cpu=1), usage("a", cpu=2)) == []
    (rejected,) = core.bring(usage("c", cpu=1))
    assert rejected.field == "name"
    assert core.bring(usage("a"), usage("c", cpu=1)) == []


def test_forgetting_what_was_never_known_changes_nothing() -> None:
    engine = Engine()
    version = engine.cache.version
    engine.cache.put_data("usage", "n1", {})
    assert engine.cache.version == version


def test_a_checkpoint_has_the_data_and_the_times_of_plugins() -> None:
    state = ClusterState(Registry())
    texts = PluginData(plugin="p", name="n", texts={"t": "x"}, numbers={"u": 2.5})
    ops = [Op(plugin_data=usage("n1", cpu=50, time=1.5)), Op(plugin_data=texts)]
    state.apply(OpReader().read_ops(1, ops), 0)
    state.engine.cache.plugin_times["tdm"] = 17
    again = ClusterState(Registry())
    restore(again, StateCheckpoint(state, ("", 0)).write(), ObjectReader())
    cache = again.engine.cache
    assert cache.plugin_data.of("usage").get("n1") == {"cpu": 50.0, "time": 1.5}
    assert cache.plugin_data.of("p").get("n") == {"t": "x", "u": 2.5}
    assert cache.plugin_times == {"tdm": 17}
