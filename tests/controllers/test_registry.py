"""The selection of controllers by name."""

import pytest

from pumice.controllers.registry import CONTROLLERS, DEFAULT_SELECTION, selected


def test_all_run_by_default() -> None:
    assert selected(DEFAULT_SELECTION.split(",")) == list(CONTROLLERS)


def test_a_controller_that_is_missing_is_refused() -> None:
    with pytest.raises(ValueError, match="sharding-controller is not supported"):
        selected(["*", "sharding-controller"])
