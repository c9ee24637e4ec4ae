"""The scheduler's configuration, from files and ConfigMaps."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.adapters.kubernetes.errors import NoAccessError
from pumice.adapters.kubernetes.options import ConfigMapKey
from pumice.v1.configuration_pb2 import Configuration
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi

Watched = Callable[..., Cluster]


def texts(cluster: Cluster) -> list[str]:
    return [configuration.scheduler_conf for configuration in cluster.configurations]


async def test_without_a_file_the_default_is_told(watched: Watched) -> None:
    cluster = watched(configuration=Configuration(default_queue="q"))
    await until(lambda: cluster.synced)
    assert texts(cluster) == [""]
    assert cluster.configurations[0].default_queue == "q"


async def test_a_file_is_read_again_when_it_changes(watched: Watched, tmp_path: Path) -> None:
    file = tmp_path / "conf"
    file.write_text("one")
    cluster = watched(scheduler_conf=file)
    await until(lambda: cluster.synced)
    file.write_text("two!")
    await until(lambda: texts(cluster) == ["one", "two!"])
    # Touched, not changed.
    os.utime(file)
    file.unlink()
    file.write_text("three")
    await until(lambda: texts(cluster) == ["one", "two!", "three"])


async def test_a_mounted_config_map_is_followed_through_its_links(
    watched: Watched, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "conf").write_text(name)
    data = tmp_path / "..data"
    data.symlink_to(tmp_path / "first")
    file = tmp_path / "conf"
    file.symlink_to(data / "conf")
    cluster = watched(scheduler_conf=file)
    await until(lambda: cluster.synced)
    fresh = tmp_path / "..fresh"
    fresh.symlink_to(tmp_path / "second")
    fresh.rename(data)
    await until(lambda: texts(cluster) == ["first", "second"])


async def test_a_file_that_cannot_be_read_at_the_start_ends_it(
    watched: Watched, tmp_path: Path
) -> None:
    cluster = watched(scheduler_conf=tmp_path / "none")
    with pytest.raises(NoAccessError, match="cannot be read"):
        await cluster.task


async def test_a_config_map_is_watched(fake_api: FakeApi, watched: Watched) -> None:
    def put(text: str) -> None:
        fake_api.put(
            "configmaps",
            {
                "metadata": {"namespace": "volcano-system", "name": "conf"},
                "data": {"volcano-scheduler.conf": text},
            },
        )

    put("one")
    cluster = watched(config_map=ConfigMapKey("volcano-system", "conf"))
    await until(lambda: cluster.synced)
    put("two")
    await until(lambda: texts(cluster) == ["one", "two"])
    fake_api.remove("configmaps", "volcano-system", "conf")
    put("three")
    await until(lambda: texts(cluster) == ["one", "two", "three"])
    (call,) = {call[2]["fieldSelector"] for call in fake_api.made("GET", "/configmaps$")}
    assert call == "metadata.name=conf"
