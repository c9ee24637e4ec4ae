"""Who is let in: certificates right, wrong, expired and rotated; addresses that need them."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from pumice.client import AccessDeniedError, AsyncClient, ClientError, ClientSettings
from pumice.client.details import read_status_details
from pumice.server.addresses import AddressError, check_address
from pumice.server.server import CoreServer, ServerOptions
from pumice.server.tls import CertificateFileError, TlsFiles
from tests.server.certificates import Authority
from tests.server.running import ScriptedAdapter, gang, node, queue

Code = grpc.StatusCode


class Guarded:
    """A core with mutual TLS, and channels to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.files = self.authority.issue("core", "core", "localhost")
        tls = TlsFiles(*self.files, self.authority.path)
        self.server = CoreServer(ServerOptions("127.0.0.1:0", tls))
        self._channels: list[grpc.aio.Channel] = []

    def adapter(
        self, pair: tuple[Path, Path] | None, authority: Path | None = None, **hello: Any
    ) -> ScriptedAdapter:
        credentials = grpc.ssl_channel_credentials(
            (authority or self.authority.path).read_bytes(),
            *((None, None) if pair is None else (pair[1].read_bytes(), pair[0].read_bytes())),
        )
        options = [
            ("grpc.ssl_target_name_override", "localhost"),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        channel = grpc.aio.secure_channel(self.server.address, credentials, options=options)
        self._channels.append(channel)
        return ScriptedAdapter(channel, **hello)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        await self.server.stop()


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    held = Guarded(tmp_path)
    await held.server.start()
    yield held
    await held.close()


async def ending(adapter: ScriptedAdapter) -> tuple[grpc.StatusCode, str]:
    await adapter.send(hello=adapter.hello)
    code, metadata = await adapter.ended_with()
    detail = read_status_details(metadata)
    return code, detail.reason


OWN = "pumice://cluster/c1"


@pytest.mark.parametrize("uris", [(OWN,), (OWN, "pumice://cluster/other"), ("other.org", OWN)])
async def test_a_certificate_that_names_the_cluster_is_let_in(
    guarded: Guarded, uris: tuple[str, ...]
) -> None:
    adapter = guarded.adapter(guarded.authority.issue("adapter", "any name", *uris))
    await adapter.connect()
    await adapter.snapshot([queue(), node("n1"), *gang("job", 1)])
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_a_certificate_of_another_cluster_is_denied(guarded: Guarded) -> None:
    # Only a URI names a cluster: neither the common name nor a host name does.
    names = ("c1", "c1", "c1.org", "https://cluster/c1", "pumice://cluster/c2")
    adapter = guarded.adapter(guarded.authority.issue("adapter", *names))
    assert await ending(adapter) == (Code.PERMISSION_DENIED, "CLUSTER_DENIED")


def client_of(guarded: Guarded, cluster: str, asks: str = "c1") -> AsyncClient:
    """A client whose certificate names one cluster, and which asks about another perhaps."""
    uri = f"pumice://cluster/{cluster}"
    certificate, key = guarded.authority.issue(f"client-{cluster}", "client", uri)
    return AsyncClient(
        ClientSettings(
            guarded.server.address,
            asks,
            tls_ca=str(guarded.authority.path),
            tls_cert=str(certificate),
            tls_key=str(key),
            tls_server_name="localhost",
            retry_seconds=0,
        )
    )


async def test_a_recording_is_for_certificates_that_name_the_cluster(guarded: Guarded) -> None:
    adapter = guarded.adapter(guarded.authority.issue("adapter", "a1", OWN))
    await adapter.connect()
    await adapter.snapshot([queue(), node("n1")])
    async with client_of(guarded, "c1") as own:
        assert (await anext(aiter(own.record()))).header.cluster == "c1"
    async with client_of(guarded, "c2") as other:
        with pytest.raises(AccessDeniedError, match="does not name cluster 'c1'"):
            await anext(aiter(other.record()))


async def test_a_certificate_of_another_cluster_reads_nothing(guarded: Guarded) -> None:
    adapter = guarded.adapter(guarded.authority.issue("adapter", "a1", OWN))
    await adapter.connect()
    await adapter.snapshot([queue(), node("n1"), *gang("job", 1)])
    await adapter.decisions()
    async with client_of(guarded, "c1", asks="") as own:
        assert [held.name for held in await own.list_nodes()] == ["n1"]
    async with client_of(guarded, "c2") as other:
        for call in (
            other.list_jobs(),
            other.list_nodes(),
            other.list_queues(),
            other.explain_job("team/job"),
            other.schedule([]),
            other.get_config(),
        ):
            with pytest.raises(AccessDeniedError, match="does not name cluster 'c1'"):
                await call
    async with client_of(guarded, "c2", asks="") as silent:
        with pytest.raises(ClientError, match="no cluster 'c2'"):
            await silent.list_nodes()


async def test_no_certificate_is_not_enough(guarded: Guarded) -> None:
    assert (await ending(guarded.adapter(None)))[0] is Code.UNAVAILABLE


async def test_a_stranger_is_not_let_in(guarded: Guarded, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    adapter = guarded.adapter(stranger.issue("fake", "c1", OWN))
    assert (await ending(adapter))[0] is Code.UNAVAILABLE


async def test_an_expired_certificate_is_not_let_in(guarded: Guarded) -> None:
    adapter = guarded.adapter(guarded.authority.issue("old", "c1", OWN, days=-1))
    assert (await ending(adapter))[0] is Code.UNAVAILABLE


async def test_certificates_are_read_again_when_they_change(guarded: Guarded) -> None:
    pair = guarded.authority.issue("adapter", "a1", OWN)
    await guarded.adapter(pair).connect()
    # Everything is signed by someone else from now on.
    new = Authority(guarded.folder, "ca")
    new.issue("core", "core", "localhost")
    assert (await ending(guarded.adapter(pair, new.path)))[0] is Code.UNAVAILABLE
    fresh = guarded.adapter(new.issue("adapter2", "a1", OWN), new.path, incarnation="i2")
    await fresh.connect()


async def test_a_bad_rotation_keeps_the_old_certificates(guarded: Guarded) -> None:
    pair = guarded.authority.issue("adapter", "a1", OWN)
    guarded.files[1].write_text("no key at all")
    await guarded.adapter(pair).connect()


GARBAGE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def damaged(authority: Authority, files: tuple[Path, Path], what: str) -> None:
    """Files that are PEM files, as a rotation in the wrong order or a wrong secret leaves them."""
    match what:
        case "other key":
            files[1].write_text(authority.issue("other", "core", "localhost")[1].read_text())
        case "certificate":
            files[0].write_text(GARBAGE)
        case "key":
            files[1].write_text(GARBAGE.replace("CERTIFICATE", "PRIVATE KEY"))
        case "authority":
            authority.path.write_text(GARBAGE)


DAMAGES = ["other key", "certificate", "key", "authority"]


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_rotation_to_invalid_files_is_reported_once_and_can_be_repaired(
    guarded: Guarded, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pair = guarded.authority.issue("adapter", "a1", OWN)
    good = guarded.folder / "good.pem"
    paths = (*guarded.files, guarded.authority.path)
    contents = [path.read_bytes() for path in paths]
    good.write_bytes(contents[2])
    damaged(guarded.authority, guarded.files, what)
    for epoch in (1, 2):
        await guarded.adapter(pair, good, epoch=epoch).connect()
    assert caplog.text.count("the old ones stay in use") == 1
    assert "certificates were reloaded" not in caplog.text
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    await guarded.adapter(pair, good, epoch=3).connect()
    assert "certificates were reloaded" in caplog.text


@pytest.mark.parametrize("what", DAMAGES)
def test_invalid_files_are_refused_at_the_start(tmp_path: Path, what: str) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("core", "core", "localhost")
    damaged(authority, files, what)
    with pytest.raises(CertificateFileError, match=r"\.pem"):
        TlsFiles(*files, authority.path).credentials()


# Addresses.


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "localhost:1", "[::1]:0", "unix:/tmp/x", "unix:///tmp/x"]
)
def test_this_machine_needs_no_certificates(address: str) -> None:
    check_address(address, mutual_tls=False, insecure=False)


def test_others_need_mutual_tls_or_a_flag() -> None:
    with pytest.raises(AddressError, match="--insecure"):
        check_address("0.0.0.0:1", mutual_tls=False, insecure=False)
    check_address("0.0.0.0:1", mutual_tls=True, insecure=False)
    check_address("0.0.0.0:1", mutual_tls=False, insecure=True)


@pytest.mark.parametrize("address", ["", "7461", "host:", "host:port", "unix:/nowhere/x"])
def test_an_address_that_makes_no_sense_is_refused(address: str) -> None:
    with pytest.raises(AddressError):
        check_address(address, mutual_tls=True, insecure=True)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(CertificateFileError, match=r"missing\.pem"):
        TlsFiles(missing, missing).credentials()


async def test_a_taken_address_is_refused(guarded: Guarded) -> None:
    second = CoreServer(ServerOptions(guarded.server.address))
    with pytest.raises(AddressError, match="another process"):
        await second.start()
