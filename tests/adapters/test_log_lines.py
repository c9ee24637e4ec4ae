"""Log lines of the adapter commands: a name or a message of a server does not forge a line."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pumice.adapters.runtime import shutdown
from pumice.adapters.runtime.errors import AdapterError
from pumice.cli.main import pumice

RECORDING = Path(__file__).parents[1] / "recordings" / "trouble.pumice"
CORE = ["--core", "127.0.0.1:1"]
COMMANDS = [
    ["adapter", "kubernetes", *CORE],
    ["adapter", "kubernetes", *CORE, "--shadow"],
    ["run"],
    ["adapter", "simulated", *CORE],
    ["adapter", "replay", *CORE, str(RECORDING)],
]
FORGED = "refused\n2026-01-01 00:00:00,000 INFO pumice.adapters: all is well\x1b[2K"


@pytest.fixture
def levels() -> Iterator[None]:
    """Restores the levels that a command sets."""
    names = (None, "pumice.adapters.runtime.apply", "pumice.adapters.runtime.resync")
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    yield
    for logger, level in before:
        logger.setLevel(level)


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: words[-1].rpartition("/")[2])
def test_a_message_does_not_forge_a_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(work: Coroutine[Any, Any, Any]) -> None:
        work.close()
        logging.getLogger("pumice.adapters").error("%s", FORGED)
        raise AdapterError("ended")

    with monkeypatch.context() as patched:
        # Without the handlers of the test run the command sets up its own.
        patched.setattr(logging.getLogger(), "handlers", [])
        patched.setattr(asyncio, "run", run)
        patched.setattr(shutdown, "run", run)
        result = CliRunner().invoke(pumice, arguments)
    lines = [line for line in result.stderr.splitlines() if "all is well" in line]
    assert len(lines) == 1, result.output
    assert "ERROR pumice.adapters: refused\\n2026" in lines[0]
    assert lines[0].endswith("all is well\\x1b[2K")
