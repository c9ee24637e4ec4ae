"""The soak test in small: what it looks for at length must hold in short."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.watching import soak


@pytest.mark.slow
async def test_changes_cut_off_and_expired_watches_leave_the_core_with_the_truth(
    tmp_path: Path,
) -> None:
    found = await soak(60_000, 500, 20, tmp_path, waits_for_digest=False)
    assert found.problems == []
    assert found.relists
