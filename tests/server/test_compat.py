"""The compatibility switches on their way from the wire to the engine."""

from __future__ import annotations

import pytest

from pumice.core.cache.cluster import ClusterCache
from pumice.core.deltas import ClusterObject, Upserted
from pumice.core.engine import Engine
from pumice.core.kubebatch import BACKOFF, KUBE_BATCH, NAMESPACE_AS_QUEUE
from pumice.core.kubebatch.cache import KubeBatchCache
from pumice.core.kubebatch.plugins.gang import KubeBatchGangPlugin
from pumice.core.plugins.gang import GangPlugin
from pumice.core.registry import Plugin, Registry
from pumice.server.configuration import ConfigurationRefusedError, EffectiveConfiguration, read
from pumice.server.state import ClusterState
from pumice.v1.configuration_pb2 import Configuration
from tests.core import builders


def settled(*compat: str, text: str = "", queue: str = "") -> EffectiveConfiguration:
    message = Configuration(scheduler_conf=text, compat=compat, default_queue=queue)
    return read(message, Registry())


def refused(*compat: str, text: str = "") -> str:
    with pytest.raises(ConfigurationRefusedError) as error:
        settled(*compat, text=text)
    return str(error.value)


def test_kube_batch_has_its_own_scheduler_name_and_the_default_queue() -> None:
    settings = settled(KUBE_BATCH).settings
    assert (settings.scheduler_names, settings.default_queue) == (("kube-batch",), "default")
    assert settings.compat == (KUBE_BATCH,)
    assert settled().settings.scheduler_names == ("volcano",)


def test_where_namespaces_are_queues_there_is_no_default_queue_unless_one_is_named() -> None:
    assert settled(KUBE_BATCH, NAMESPACE_AS_QUEUE).settings.default_queue == ""
    named = settled(KUBE_BATCH, NAMESPACE_AS_QUEUE, queue="blue")
    assert named.settings.default_queue == "blue"


def test_the_order_of_switches_does_not_matter() -> None:
    one, other = settled(KUBE_BATCH, BACKOFF), settled(BACKOFF, KUBE_BATCH)
    assert one.settings == other.settings


def test_a_switch_for_older_versions_needs_kube_batch() -> None:
    assert "has no effect without 'kube-batch'" in refused(BACKOFF)
    assert "has no effect without 'kube-batch'" in refused(NAMESPACE_AS_QUEUE)
    assert "known: kube-batch, namespace-as-queue, backoff" in refused("nonsense")


def test_what_came_with_volcano_is_refused_by_name() -> None:
    text = "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: sla\n"
    problem = refused(KUBE_BATCH, text=text)
    assert "action 'enqueue' is Volcano's; kube-batch had none" in problem
    assert "plugin 'sla' is Volcano's; kube-batch had none" in problem


def test_arguments_are_those_of_kube_batchs_plugins() -> None:
    text = (
        "actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n    arguments:\n"
        "      predicate.MemoryPressureEnable: 'true'\n"
    )
    effective = settled(KUBE_BATCH, text=text)
    assert effective.warnings == ()
    (options,) = effective.scheduler.tiers[0]
    assert options.arguments.get("predicate.MemoryPressureEnable") is True
    other = text.replace("MemoryPressureEnable", "CacheEnable")
    assert "unknown argument 'predicate.CacheEnable'" in refused(KUBE_BATCH, text=other)


def test_the_switches_are_part_of_what_is_recorded_and_of_the_hash() -> None:
    older = settled(KUBE_BATCH, BACKOFF)
    assert list(older.message.compat) == [KUBE_BATCH, BACKOFF]
    assert older.hash != settled(KUBE_BATCH).hash


def test_a_running_engine_changes_its_world_and_back_and_keeps_its_objects() -> None:
    state = ClusterState(Registry())
    engine: Engine = state.engine
    ours = Configuration(scheduler_names=["volcano"])
    older = Configuration(scheduler_names=["volcano"], compat=[KUBE_BATCH])
    assert state.configure(ours).accepted
    objects: list[ClusterObject] = [builders.queue(), builders.node("n1"), builders.pod("p", "")]
    assert engine.apply([Upserted(item) for item in objects]) == ()
    assert engine.schedule(1).decisions == (), "Volcano leaves pods without a group alone"
    assert state.configure(older).accepted
    assert _world(engine) is KubeBatchCache
    assert _gang(engine) is KubeBatchGangPlugin
    (bind,) = engine.schedule(2).decisions
    assert (bind.name, bind.node) == ("p", "n1")
    assert state.configure(ours).accepted
    assert _world(engine) is ClusterCache
    assert _gang(engine) is GangPlugin
    assert [pod.name for pod in engine.cache.objects() if pod.uid == "uid-p"] == ["p"]


def _world(engine: Engine) -> type[ClusterCache]:
    return type(engine.cache)


def _gang(engine: Engine) -> type[Plugin]:
    return engine.registry.plugins["gang"]
