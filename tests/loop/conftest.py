"""A stage for every test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.loop.stage import Stage


@pytest.fixture
def folder() -> Iterator[Path]:
    # Paths of sockets are short; pytest's own folders are not.
    with TemporaryDirectory(prefix="pumice") as made:
        yield Path(made)


@pytest.fixture
async def stage(folder: Path) -> AsyncIterator[Stage]:
    async with Stage(folder) as made:
        yield made
