"""A core in this process, for every test that wants one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.server.running import RunningCore, running_core


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    # The path of a socket may have a hundred characters; pytest's own folders have more.
    with TemporaryDirectory(prefix="pumice-") as folder:
        yield Path(folder)


@pytest.fixture
async def core(socket_folder: Path) -> AsyncIterator[RunningCore]:
    async with running_core(socket_folder) as running:
        yield running
