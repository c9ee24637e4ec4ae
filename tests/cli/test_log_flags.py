"""Log flags of vcctl before the last word of a command."""

import pytest

from pumice.cli.log_flags import with_log_flags_last


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("-v 4 job list -n a", "job list -n a -v 4"),
        ("-v=4 job --vmodule a=1 list", "job list -v=4 --vmodule a=1"),
        ("job --v 4 list", "job list --v 4"),
        ("-v4 --log-flush-frequency=5s job list", "job list -v4 --log-flush-frequency=5s"),
        ("job -v 4 --help", "job --help -v 4"),
        ("job list -v 4 -n a", "job list -v 4 -n a"),
        # Without a value, and of other commands: they are refused as before.
        ("job -v", "job -v"),
        ("-v 4", "-v 4"),
        ("-v 4 core", "-v 4 core"),
        ("--version", "--version"),
        ("-verbose job list", "-verbose job list"),
        ("", ""),
    ],
)
def test_log_flags_may_stand_anywhere(given: str, wanted: str) -> None:
    assert with_log_flags_last(given.split(), {"job"}) == wanted.split()
