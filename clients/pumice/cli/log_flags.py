"""The log flags of vcctl, which are allowed anywhere in a command."""

from collections.abc import Collection, Sequence
from typing import Final

_SHORT: Final = "-v"
_LONG: Final = ("--v", "--vmodule", "--log-flush-frequency")


def with_log_flags_last(arguments: Sequence[str], groups: Collection[str]) -> list[str]:
    """Moves log flags among the words of a command of these groups to the end."""
    words: list[str] = []
    moved: list[str] = []
    rest = list(arguments)
    while rest and len(words) < 2:
        if (length := _length_of_flag(rest[0])) > 0:
            moved += rest[:length]
            del rest[:length]
        elif rest[0].startswith("-"):
            break
        else:
            words.append(rest.pop(0))
    if not words or words[0] not in groups:
        return list(arguments)
    return [*words, *rest, *moved]


def _length_of_flag(argument: str) -> int:
    """The number of arguments of a log flag, including itself; 0 if this is not a log flag."""
    name, equals, _ = argument.partition("=")
    if argument == _SHORT or (name in _LONG and not equals):
        return 2
    is_joined = argument.startswith(_SHORT) and argument[len(_SHORT) :].lstrip("=").isdigit()
    return 1 if is_joined or name in _LONG else 0
