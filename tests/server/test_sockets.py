"""Unix sockets of cores: one core at a time, and a socket that remains from a killed core."""

import socket
from pathlib import Path

import pytest

from pumice.server.addresses import AddressError, check_address
from pumice.server.server import CoreServer, ServerOptions
from tests.server.running import node, queue, running_core
from tests.server.trials import inline, schedule


async def test_a_second_core_does_not_take_the_socket_of_the_first(socket_folder: Path) -> None:
    async with running_core(socket_folder) as core:
        with pytest.raises(AddressError, match="another process listens on this socket"):
            CoreServer(ServerOptions(core.server.address))
        await core.served([queue(), node("n1")])


async def test_a_core_that_stops_leaves_the_socket_of_its_successor(socket_folder: Path) -> None:
    """The successor starts when the first core no longer listens and still ends its streams."""
    path = socket_folder / "core.sock"
    async with running_core(socket_folder) as first:
        server = first.server._server
        assert server is not None
        await server.stop(None)
        assert not path.exists()
        async with running_core(socket_folder) as second:
            await first.server.stop()
            await schedule(second, inline("r1", queue()))
    assert not path.exists()


async def test_the_socket_of_a_killed_core_is_replaced(socket_folder: Path) -> None:
    path = socket_folder / "core.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
        killed.listen()
    assert path.is_socket()
    async with running_core(socket_folder) as core:
        await core.served([queue(), node("n1")])


def test_a_path_that_cannot_be_a_socket_is_refused_with_the_reason(socket_folder: Path) -> None:
    plain = socket_folder / "plain"
    plain.touch()
    long = socket_folder / ("x" * 100)
    for path, problem in (
        (plain, "exists and is not a socket"),
        (socket_folder, "exists and is not a socket"),
        (long, "at most 107 are allowed"),
    ):
        with pytest.raises(AddressError, match=problem):
            check_address(f"unix:{path}", mutual_tls=False, insecure=False)
    assert plain.exists()


def test_a_port_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AddressError, match="above 65535"):
        check_address("127.0.0.1:99999", mutual_tls=False, insecure=False)
