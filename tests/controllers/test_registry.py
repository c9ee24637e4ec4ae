"""The selection of controllers by name."""

import pytest

from pumice.controllers.registry import CONTROLLERS, DEFAULT_SELECTION, OFF_BY_DEFAULT, selected

DEFAULT = [name for name in CONTROLLERS if name not in OFF_BY_DEFAULT]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (DEFAULT_SELECTION, DEFAULT),
        ("*", list(CONTROLLERS)),
        ("-gc-controller", [name for name in DEFAULT if name != "gc-controller"]),
        ("*,-gc-controller", [name for name in CONTROLLERS if name != "gc-controller"]),
        ("sharding-controller", ["sharding-controller"]),
        ("+gc-controller", ["gc-controller"]),
    ],
)
def test_a_list_selects_controllers(text: str, names: list[str]) -> None:
    assert selected(text.split(",")) == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nobody", "unknown controller 'nobody'; allowed: "),
        ("gc-controller,-gc-controller", "both selected and excluded"),
    ],
)
def test_a_wrong_list_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        selected(text.split(","))
