"""Discovery of HyperNodes from UFM, on a real HTTPS server."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from pumice.controllers.hypernode import ufm_client
from pumice.controllers.hypernode.controller import HyperNodeController
from pumice.controllers.hypernode.discovery import DiscoveryError
from pumice.controllers.hypernode.types import SOURCE, UFM_SOURCE
from pumice.controllers.hypernode.ufm import Port, UfmSettings, hyper_nodes, ufm_settings
from pumice.controllers.hypernode.ufm_client import UfmError
from pumice.controllers.options import ControllerOptions
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.running import Loops
from tests.controlplane.credentials import Credentials

HYPER_NODES = "hypernodes.topology.volcano.sh"
PASSWORD = "pass:wörd"


def port(node: str, leaf: str, description: str = "Computer IB Port") -> dict[str, Any]:
    return {"description": description, "system_name": node, "peer_node_name": leaf, "tier": 4}


PORTS = [
    port("n1", "leaf-b"),
    port("n2", "leaf-b"),
    port("n2", "leaf-c"),
    port("n3", "leaf-c"),
    port("m1", "leaf-a"),
    port("leaf-a", "spine", "Switch IB Port"),
]


def members(body: dict[str, Any]) -> list[str]:
    return [one["selector"]["exactMatch"]["name"] for one in body["spec"]["members"]]


def made(ports: list[dict[str, Any]]) -> dict[str, list[str]]:
    found = hyper_nodes(msgspec.convert(ports, list[Port]))
    return {name: members(body) for name, body in found.items()}


def test_leaves_that_share_a_node_are_one_hyper_node() -> None:
    found = made(PORTS)
    assert found == {
        "leaf-hn-0": ["m1"],
        "leaf-hn-1": ["n1", "n2", "n3"],
        "spine-hn": ["leaf-hn-0", "leaf-hn-1"],
    }
    bodies = hyper_nodes(msgspec.convert(PORTS, list[Port]))
    assert [body["spec"]["tier"] for body in bodies.values()] == [1, 1, 2]
    assert made(list(reversed(PORTS))) == found


def test_odd_ports_make_no_odd_members() -> None:
    odd = [
        port("", "leaf"),
        port("n1", ""),
        port("Host 1 HCA", "leaf"),
        port("n" * 254, "leaf"),
        {"description": None, "system_name": None, "peer_node_name": None},
        {},
    ]
    assert made(odd) == {}
    assert made([*odd, port("n1", "leaf")]) == {"leaf-hn-0": ["n1"], "spine-hn": ["leaf-hn-0"]}


def source(**more: Any) -> str:
    one = {
        "source": "ufm",
        "enabled": True,
        "credentials": {"secretRef": {"name": "ufm", "namespace": "ns"}},
        "config": {"endpoint": "ufm.example"},
        **more,
    }
    # JSON is YAML.
    return msgspec.json.encode({"networkTopologyDiscovery": [one]}).decode()


def test_settings() -> None:
    assert ufm_settings("", "home") is None
    assert ufm_settings(source(enabled=False), "home") is None
    plain = UfmSettings("https://ufm.example", "ns", "ufm", 3600.0)
    assert ufm_settings(source(), "home") == plain
    own = source(
        interval="10m",
        credentials={"secretRef": {"name": "ufm"}},
        config={"endpoint": "http://10.0.0.1:8443/", "insecureSkipVerify": True},
    )
    wanted = UfmSettings("http://10.0.0.1:8443", "home", "ufm", 600.0, skips_verification=True)
    assert ufm_settings(own, "home") == wanted


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"config": {}}, "needs config.endpoint"),
        ({"config": None}, "needs config.endpoint"),
        ({"config": {"endpoint": 5}}, "needs config.endpoint"),
        ({"config": {"endpoint": "https://"}}, "is not an address"),
        ({"config": {"endpoint": "host:port"}}, "is not an address"),
        ({"credentials": None}, "needs credentials.secretRef.name"),
        ({"credentials": {"secretRef": 5}}, "cannot be read"),
        ({"interval": "0s"}, "allowed: a duration of 1s or more"),
        ({"interval": "soon"}, "allowed: a duration of 1s or more"),
        ({"interval": "-1h"}, "allowed: a duration of 1s or more"),
    ],
)
def test_settings_that_cannot_be_used(more: dict[str, Any], text: str) -> None:
    with pytest.raises(DiscoveryError, match=text):
        ufm_settings(source(**more), "home")


# On a server.


@dataclass
class Ufm:
    """A server that answers as a test wants."""

    address: str = ""
    status: int = 200
    body: bytes = msgspec.json.encode(PORTS)
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.headers.get("Authorization", ""))
        assert request.path == "/ufmRest/resources/ports"
        return web.Response(status=self.status, body=self.body)


@pytest.fixture
async def ufm(tmp_path: Path) -> AsyncIterator[Ufm]:
    served = Ufm()
    application = web.Application()
    application.router.add_get("/{path:.*}", served.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    credentials = Credentials(tmp_path)
    credentials.write()
    context.load_cert_chain(credentials.certificate, credentials.key)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    served.address = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield served
    await runner.cleanup()


def settings(ufm: Ufm, *, skips: bool = True) -> UfmSettings:
    return UfmSettings(ufm.address, "ns", "ufm", skips_verification=skips)


async def test_ports_are_read_with_credentials(ufm: Ufm) -> None:
    found = await ufm_client.ports(settings(ufm), "user", PASSWORD)
    assert len(found) == len(PORTS)
    word = b64encode(f"user:{PASSWORD}".encode()).decode()
    assert ufm.asked == [f"Basic {word}"]


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (401, b"", "status 401"),
        (302, b"", "status 302"),
        (500, b"[]", "status 500"),
        (200, b"", "is not a list of ports"),
        (200, b"<html>", "is not a list of ports"),
        (200, b'{"ports": []}', "is not a list of ports"),
        (200, b'[{"system_name": 5}]', "is not a list of ports"),
        (200, b"[" + b" " * 2000 + b"]", "is longer than 1000 bytes"),
    ],
)
async def test_answers_that_cannot_be_used(ufm: Ufm, status: int, body: bytes, text: str) -> None:
    ufm.status, ufm.body = status, body
    with pytest.raises(UfmError, match=text):
        await ufm_client.ports(settings(ufm), "user", "word", most_bytes=1000)


async def test_a_certificate_is_verified_unless_it_is_said_otherwise(ufm: Ufm) -> None:
    with pytest.raises(UfmError, match="certificate"):
        await ufm_client.ports(settings(ufm, skips=False), "user", "word")
    assert ufm.asked == []
    gone = UfmSettings("https://127.0.0.1:1", "ns", "ufm")
    with pytest.raises(UfmError, match="Cannot connect"):
        await ufm_client.ports(gone, "user", "word")


def put_secret(api: FakeApi, **data: str) -> None:
    encoded = {key: b64encode(text.encode()).decode() for key, text in data.items()}
    api.put("secrets", {"metadata": {"name": "ufm", "namespace": "ns"}, "data": encoded})


def put_configuration(api: FakeApi, text: str) -> None:
    metadata = {"name": "volcano-controller-configmap", "namespace": "volcano-system"}
    api.put("configmaps", {"metadata": metadata, "data": {"volcano-controller.conf": text}})


def held(api: FakeApi) -> dict[str, list[str]]:
    return {key[2]: members(body) for key, body in api.objects.items() if key[0] == HYPER_NODES}


def warnings(api: FakeApi) -> list[str]:
    return [
        str(body["message"])
        for body in api.objects.values()
        if body.get("reason") == "DiscoveryFailed"
    ]


async def test_hyper_nodes_follow_ufm_and_outlive_its_faults(
    fake_api: FakeApi, loops: Loops, ufm: Ufm
) -> None:
    fake_api.resources |= {HYPER_NODES, "configmaps", "secrets"}
    fake_api.with_status |= {HYPER_NODES}
    config = {"endpoint": ufm.address, "insecureSkipVerify": True}
    put_configuration(fake_api, source(config=config, interval="1s"))
    controller = HyperNodeController(ControllerOptions())
    loops.start(controller)
    await until(lambda: any("Secret ns/ufm cannot be read" in one for one in warnings(fake_api)))
    put_secret(fake_api, username="user")
    await until(lambda: any("needs the keys username" in one for one in warnings(fake_api)))
    put_secret(fake_api, username="user", password=PASSWORD)
    await until(lambda: held(fake_api) == made(PORTS))
    assert all(
        body["metadata"]["labels"] == {SOURCE: UFM_SOURCE}
        for key, body in fake_api.objects.items()
        if key[0] == HYPER_NODES
    )
    # Bad answers change nothing, and are told once.
    for body in (b"[", b"[]"):
        ufm.body = body
        before = len(ufm.asked)
        await until(lambda: len(ufm.asked) > before + 3)  # noqa: B023
        assert held(fake_api) == made(PORTS)
    await until(lambda: any("names no computer" in one for one in warnings(fake_api)))
    assert len([one for one in warnings(fake_api) if "not a list of ports" in one]) == 1
    ufm.body = msgspec.json.encode(PORTS[:2])
    await until(lambda: held(fake_api) == made(PORTS[:2]))
    # Without the source, UFM is not asked any more, and what it led to stays.
    put_configuration(fake_api, source(enabled=False))
    await until(lambda: controller._ufm._settings is None)
    asked = len(ufm.asked)
    await asyncio.sleep(0.05)
    assert len(ufm.asked) <= asked + 1
    assert held(fake_api) == made(PORTS[:2])


async def test_a_source_that_cannot_be_used_is_told(fake_api: FakeApi, loops: Loops) -> None:
    fake_api.resources |= {HYPER_NODES, "configmaps"}
    put_configuration(fake_api, source(config={}))
    loops.start(HyperNodeController(ControllerOptions()))
    await until(lambda: any("needs config.endpoint" in one for one in warnings(fake_api)))
