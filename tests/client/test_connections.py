"""What is said when no connection comes about, and what to do."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pumice.client import (
    AsyncClient,
    ClientError,
    ClientSettings,
    CoreUnavailableError,
    HandshakeError,
)
from pumice.server.server import CoreServer, ServerOptions
from pumice.server.tls import TlsFiles
from tests.server.certificates import Authority


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """Of a core that wants certificates of the authority."""
    authority = Authority(tmp_path)
    Authority(tmp_path, "other")
    authority.issue("client", "dashboard")
    certificate, key = authority.issue("core", "core", "localhost")
    tls = TlsFiles(certificate, key, authority.path)
    server = CoreServer(ServerOptions("127.0.0.1:0", tls=tls))
    await server.start()
    yield int(server.address.rpartition(":")[2])
    await server.stop()


async def said(**settings: Any) -> ClientError:
    async with AsyncClient(
        ClientSettings(retry_seconds=0, timeout_seconds=20, **settings)
    ) as client:
        with pytest.raises(ClientError) as caught:
            await client.list_queues()
    return caught.value


async def test_wrong_tls_is_told_from_a_core_that_is_away(port: int, tmp_path: Path) -> None:
    core, ca = f"localhost:{port}", str(tmp_path / "ca.pem")
    pair = {"tls_cert": str(tmp_path / "client.pem"), "tls_key": str(tmp_path / "client.key")}

    plain = await said(address=core)
    assert isinstance(plain, CoreUnavailableError)
    assert plain.advice == "if the core requires TLS, set tls_ca"

    nobody = await said(address=core, tls_ca=ca)
    assert nobody.advice == "if the core requires TLS, set tls_cert and tls_key"

    other = await said(address=core, tls_ca=str(tmp_path / "other.pem"), **pair)
    assert isinstance(other, HandshakeError)
    assert "not signed by the authority in tls_ca" in str(other)

    named = await said(address=f"127.0.0.1:{port}", tls_ca=ca, **pair)
    assert isinstance(named, HandshakeError)
    assert str(named).endswith("is not for 127.0.0.1")
    assert "tls_server_name" in named.advice


async def test_a_core_without_tls_says_so(core: Any, tmp_path: Path) -> None:
    told = await said(address=core.server.address, tls_ca=str(Authority(tmp_path).path))
    assert isinstance(told, HandshakeError)
    assert str(told).endswith("does not use TLS")


async def test_a_core_that_is_away_comes_with_why(tmp_path: Path) -> None:
    assert "(the socket does not exist)" in str(await said(address=f"unix:{tmp_path}/none"))
    assert "(connection refused)" in str(await said(address="127.0.0.1:1"))
