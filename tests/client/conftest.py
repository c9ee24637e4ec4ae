"""The core in process of the server's tests, for the client's."""

from tests.server.conftest import core, socket_folder

__all__ = ["core", "socket_folder"]
