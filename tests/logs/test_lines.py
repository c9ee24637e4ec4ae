"""A log record is one line, whatever names and messages contain."""

import io
import logging

import pytest

from pumice.logs import MAX_LINE_LENGTH, LineFormatter


@pytest.fixture
def written() -> tuple[logging.Logger, io.StringIO]:
    target = io.StringIO()
    handler = logging.StreamHandler(target)
    handler.setFormatter(LineFormatter())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger, target


FORGED = "pod\n2026-01-01 00:00:00,000 INFO pumice.server: all is well"


@pytest.mark.parametrize("end", ["\n", "\r", "\x0b", "\x1b[2K", "\x85", "\u2028", "\u202e"])
def test_a_name_does_not_forge_a_line(
    written: tuple[logging.Logger, io.StringIO], end: str
) -> None:
    logger, target = written
    logger.warning("set aside %s", f"pod{end}2026 INFO")
    assert len(target.getvalue().splitlines()) == 1
    assert end not in target.getvalue().removesuffix("\n")


def test_neither_does_the_message_of_an_error(
    written: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, target = written
    try:
        raise ValueError(FORGED)
    except ValueError:
        logger.exception("failed")
    head, *rest = target.getvalue().splitlines()
    assert head.endswith("failed")
    assert rest
    assert all(line.startswith("    ") for line in rest)


def test_a_long_message_is_cut(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, target = written
    logger.warning("%s", "x" * 100_000)
    assert len(target.getvalue()) < MAX_LINE_LENGTH + 200
    assert "(100000 characters)" in target.getvalue()
