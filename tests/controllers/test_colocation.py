"""The controller of ColocationConfigurations."""

from typing import Any

from pumice.controllers.colocation.controller import (
    CONFIGURATION,
    CONFIGURATION_NAME,
    WATCHED_PODS,
    ColocationConfiguration,
    ColocationController,
    Observed,
    _Spec,
    reconcile,
)
from pumice.controllers.options import ControllerOptions
from pumice.controllers.runtime.acts import NOTHING, Patch
from pumice.controllers.runtime.objects import Metadata
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.running import Loops

CONFIGURATIONS = "colocationconfigurations.config.volcano.sh"
QOS = {"lowRatio": 0, "highRatio": 80}
TEXT = '{"memoryQos":{"highRatio":80,"lowRatio":0}}'


def pod(**annotations: str) -> Metadata:
    held = {f"volcano.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return Metadata("p", "ns", "uid-p", labels={"app": "web"}, annotations=held or None)


def settings(name: str, selector: Any, created: str = "1") -> ColocationConfiguration:
    metadata = Metadata(name, "ns", creation_timestamp=created)
    return ColocationConfiguration(metadata, _Spec(selector, QOS))


def written(observed: Observed) -> Any:
    ((patch,),) = reconcile(observed).stages
    assert isinstance(patch, Patch)
    return patch.body["metadata"]["annotations"]


WEB = {"matchLabels": {"app": "web"}}


def test_the_newest_that_selects_wins() -> None:
    found = (settings("old", WEB, "1"), settings("new", {}, "2"), settings("none", None, "3"),
             settings("other", {"matchLabels": {"app": "db"}}, "4"))  # fmt: skip
    assert written(Observed(pod(), found)) == {CONFIGURATION_NAME: "new", CONFIGURATION: TEXT}


def test_a_pod_that_is_selected_no_more_is_reset() -> None:
    held = pod(colocation_config_name="old", colocation_config=TEXT)
    assert written(Observed(held, ())) == {CONFIGURATION_NAME: None, CONFIGURATION: "{}"}
    assert reconcile(Observed(pod(colocation_config="{}"), ())) == NOTHING
    assert reconcile(Observed(pod(), ())) == NOTHING
    same = Observed(pod(colocation_config_name="a", colocation_config=TEXT), (settings("a", WEB),))
    assert reconcile(same) == NOTHING


def notes(api: FakeApi, name: str) -> dict[str, str]:
    held: dict[str, str] = api.get("pods", "ns", name)["metadata"].get("annotations", {})
    return held


async def test_pods_follow_configurations(fake_api: FakeApi, loops: Loops) -> None:
    fake_api.resources |= {CONFIGURATIONS}
    for name, app in (("a", "web"), ("b", "db")):
        metadata = {"name": name, "namespace": "ns", "labels": {"app": app}}
        fake_api.put("pods", {"metadata": metadata, "spec": {}})
    loops.start(ColocationController(ControllerOptions()))

    metadata = {"name": "one", "namespace": "ns"}
    body = {"metadata": metadata, "spec": {"selector": WEB, "memoryQos": QOS}}
    fake_api.put(CONFIGURATIONS, body)
    await until(lambda: notes(fake_api, "a").get(CONFIGURATION) == TEXT)
    assert CONFIGURATION not in notes(fake_api, "b")
    fake_api.remove(CONFIGURATIONS, "ns", "one")
    await until(lambda: notes(fake_api, "a").get(CONFIGURATION) == "{}")


def watches_of_pods(api: FakeApi) -> int:
    return len([query for _, _, query in api.made("GET", "/api/v1/pods") if "watch" in query])


async def test_pods_are_watched_only_while_configurations_need_it(
    fake_api: FakeApi, loops: Loops
) -> None:
    fake_api.resources |= {CONFIGURATIONS}
    labels = {"app": "web"}
    fake_api.put("pods", {"metadata": {"name": "a", "namespace": "ns", "labels": labels}})
    loop = loops.start(ColocationController(ControllerOptions()))
    pods = loop.caches[WATCHED_PODS]
    await until(lambda: fake_api.made("GET", "/api/v1/pods") != [] and not loop.why_stale())
    await until(lambda: len(pods) == 0)
    before = watches_of_pods(fake_api)
    fake_api.put("pods", {"metadata": {"name": "b", "namespace": "ns", "labels": labels}})
    metadata = {"name": "one", "namespace": "ns"}
    fake_api.put(CONFIGURATIONS, {"metadata": metadata, "spec": {"selector": WEB}})
    await until(lambda: len(pods) == 2 and watches_of_pods(fake_api) > before)
    fake_api.remove(CONFIGURATIONS, "ns", "one")
    await until(lambda: len(pods) == 0)
    assert not loop.why_stale()
    # A write that was on its way is taken back when its answer comes.
    await until(lambda: notes(fake_api, "b") == {CONFIGURATION: "{}"})


async def test_settings_of_a_deleted_configuration_are_taken_back_at_the_start(
    fake_api: FakeApi, loops: Loops
) -> None:
    fake_api.resources |= {CONFIGURATIONS}
    held = {CONFIGURATION_NAME: "gone", CONFIGURATION: TEXT}
    metadata = {"name": "a", "namespace": "ns", "annotations": held}
    fake_api.put("pods", {"metadata": metadata, "spec": {}})
    loop = loops.start(ColocationController(ControllerOptions()))
    await until(lambda: notes(fake_api, "a") == {CONFIGURATION: "{}"})
    await until(lambda: len(loop.caches[WATCHED_PODS]) == 0)
