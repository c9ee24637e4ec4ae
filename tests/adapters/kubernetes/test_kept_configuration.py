"""A good configuration outlives the process that read it; a bad one is said where people look."""

import asyncio
import logging

import pytest

from pumice.adapters.kubernetes.configuration_store import MOST_BYTES
from pumice.adapters.kubernetes.options import ConfigMapKey
from pumice.adapters.runtime import configurations
from pumice.adapters.runtime.clock import end_tasks
from pumice.v1.cluster_service_pb2 import ConfigurationResult
from pumice.v1.configuration_pb2 import ConfigurationProblem
from tests.adapters.fake_clock import CountingBackoff, until
from tests.adapters.fake_core import ServedStream, serve
from tests.adapters.kubernetes.adapters import Adapters
from tests.adapters.kubernetes.fake_api import FakeApi, Object, Trouble

KEY = ConfigMapKey("volcano-system", "conf")
KEPT = "volcano-last-good-configuration"


def put(api: FakeApi, text: str, key: str = KEY.key) -> None:
    metadata = {"namespace": KEY.namespace, "name": KEY.name}
    api.put("configmaps", {"metadata": metadata, "data": {key: text}})


def kept(api: FakeApi) -> str | None:
    found = api.objects.get(("configmaps", "volcano-system", KEPT))
    return None if found is None else str(found["data"]["scheduler.conf"])


class Judge:
    """A core that refuses texts with "bad" in them."""

    def __init__(self, stream: ServedStream, in_use: str | None = None) -> None:
        self.stream, self.in_use = stream, in_use
        self._task = asyncio.create_task(self._run())

    @property
    def texts(self) -> list[str]:
        return [one.scheduler_conf for one in self.stream.model.configurations]

    async def _run(self) -> None:
        answered = 0
        while True:
            model = self.stream.model
            while answered < len(model.configurations):
                text, seq = self.texts[answered], model.configuration_seqs[answered]
                answered += 1
                self._answer(text, seq)
            await asyncio.sleep(0.002)

    def _answer(self, text: str, seq: int) -> None:
        result = ConfigurationResult(seq=seq, accepted="bad" not in text)
        if result.accepted:
            self.in_use = text
        else:
            problem = ConfigurationProblem(line=3, path="tiers", problem="unknown plugin 'bad'")
            result.problems.append(problem)
        result.effective_config_hash = "" if self.in_use is None else f"hash of {self.in_use}"
        self.stream.stream.send(configuration_result=result)

    async def close(self) -> None:
        await end_tasks(self._task)
        await self.stream.close()


async def judged(adapters: Adapters, in_use: str | None = None) -> Judge:
    return Judge(serve(await adapters.core.accept()), in_use)


async def test_a_good_configuration_is_kept_and_said(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    put(adapters.api, "one")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: kept(adapters.api) == "one")
    source = "key volcano-scheduler.conf of ConfigMap volcano-system/conf"
    assert f"configuration in use: {source} (3 characters, sha256 " in caplog.text
    put(adapters.api, "two")
    await until(lambda: kept(adapters.api) == "two")
    annotations = adapters.api.get("configmaps", "volcano-system", KEPT)["metadata"]["annotations"]
    assert annotations["pumice.sh/source"] == source
    await core.close()


async def test_after_a_failover_the_last_good_one_is_used(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    put(adapters.api, "good")
    first = adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: kept(adapters.api) == "good")
    put(adapters.api, "bad")
    await until(lambda: core.texts[-1] == "bad")
    await end_tasks(first)
    await core.close()
    # A new adapter and a new core know of nothing.
    adapters.start("b", config_map=KEY)
    other = await judged(adapters)
    await until(lambda: other.in_use == "good")
    assert other.texts == ["bad", "good"]
    assert "the last good configuration, kept in ConfigMap volcano-system/" in caplog.text
    assert kept(adapters.api) == "good"
    # The next good one is used at once.
    put(adapters.api, "better")
    await until(lambda: kept(adapters.api) == "better")
    await other.close()


async def test_a_new_core_is_given_the_last_good_one_at_once(adapters: Adapters) -> None:
    put(adapters.api, "good")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: core.in_use == "good")
    put(adapters.api, "bad")
    await until(lambda: core.texts[-1] == "bad")
    await asyncio.sleep(0.05)
    # The core that has a good one in use is not given it again.
    assert core.texts == ["good", "bad"]
    core.stream.stream.end()
    await core.close()
    other = await judged(adapters)
    await until(lambda: other.in_use == "good")
    assert other.texts == ["good"]
    await other.close()


async def test_without_a_good_one_the_default_is_used_with_a_warning(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    put(adapters.api, "bad")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: core.in_use == "")
    await until(lambda: "configuration in use: the built-in default" in caplog.text)
    assert "line 3, tiers: unknown plugin 'bad'" in caplog.text
    # It is not what was asked for, so it is not kept as if it were.
    assert kept(adapters.api) is None
    await core.close()


async def test_the_default_can_be_ruled_out(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    put(adapters.api, "bad")
    adapters.start("a", config_map=KEY, default_configuration=False)
    core = await judged(adapters)
    await until(lambda: "no valid configuration: nothing is scheduled" in caplog.text)
    assert core.texts == ["bad"]
    await core.close()


async def test_a_refusal_is_an_event_on_the_config_map(adapters: Adapters) -> None:
    put(adapters.api, "bad")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)

    def told() -> list[Object]:
        return [body for key, body in adapters.api.objects.items() if key[0] == "events"]

    await until(told)
    events = told()
    assert [(one["involvedObject"]["kind"], one["reason"]) for one in events] == [
        ("ConfigMap", "InvalidConfiguration")
    ]
    assert "unknown plugin 'bad'" in events[0]["message"]
    await core.close()


async def test_a_missing_key_does_not_stop_the_cluster(adapters: Adapters) -> None:
    put(adapters.api, "one", key="other")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: core.in_use == "")
    put(adapters.api, "one")
    await until(lambda: core.in_use == "one")
    await core.close()


async def test_a_config_map_that_is_gone_after_a_restart_is_not_missed(adapters: Adapters) -> None:
    metadata = {"namespace": "volcano-system", "name": KEPT}
    adapters.api.put("configmaps", {"metadata": metadata, "data": {"scheduler.conf": "good"}})
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: core.in_use == "good")
    await core.close()


async def test_an_empty_configuration_is_said(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    put(adapters.api, " ")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: "volcano-system/conf is empty" in caplog.text)
    await core.close()


async def test_a_configuration_that_cannot_be_kept_is_used_all_the_same(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    adapters.api.trouble.append(Trouble("PATCH", KEPT, times=1000, status=403))
    put(adapters.api, "one")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: "the configuration is not stored for a restart" in caplog.text)
    assert core.in_use == "one"
    put(adapters.api, "x" * (MOST_BYTES + 1))
    await until(lambda: f"at most {MOST_BYTES} are allowed" in caplog.text)
    await core.close()


async def test_tries_to_keep_a_configuration_are_limited(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    adapters.api.trouble.append(Trouble("PATCH", KEPT, times=1000, status=503))
    put(adapters.api, "one")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: "the configuration is not stored for a restart" in caplog.text)
    assert len(adapters.api.made("PATCH", KEPT)) == 5
    await core.close()


async def test_a_configuration_that_cannot_be_kept_now_is_kept_later(
    adapters: Adapters, monkeypatch: pytest.MonkeyPatch
) -> None:
    backoff = CountingBackoff()
    monkeypatch.setattr(configurations, "_SAVE_BACKOFF", backoff)
    adapters.api.trouble.append(Trouble("PATCH", KEPT, times=3, status=403))
    put(adapters.api, "one")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: kept(adapters.api) == "one")
    assert backoff.asked == [1, 2, 3]
    await core.close()


async def test_an_old_configuration_is_not_kept_after_a_new_one(
    adapters: Adapters, monkeypatch: pytest.MonkeyPatch
) -> None:
    backoff = CountingBackoff()
    monkeypatch.setattr(configurations, "_SAVE_BACKOFF", backoff)
    refused = Trouble("PATCH", KEPT, times=1000, status=403)
    adapters.api.trouble.append(refused)
    put(adapters.api, "one")
    adapters.start("a", config_map=KEY)
    core = await judged(adapters)
    await until(lambda: len(backoff.asked) > 1)
    put(adapters.api, "two")
    await until(lambda: core.in_use == "two" and backoff.asked[-1] == 1)
    refused.times = 0
    await until(lambda: kept(adapters.api) == "two")
    await core.close()
