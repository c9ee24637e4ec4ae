"""Arguments of plugins, in the syntax of Go's flags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pumice.patterns.golang import parse_bool, parse_int

Value = str | int | bool


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values of all flags of a plugin, and what is wrong with what was given."""

    values: Mapping[str, Value]
    problem: str = ""

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    def is_set(self, name: str) -> bool:
        return bool(self.values[name])


def parse(arguments: Sequence[str], defaults: Mapping[str, Value]) -> Arguments:
    """Reads flags up to the first word that is none, or is wrong; the others keep their defaults."""
    values = dict(defaults)
    words = list(arguments)
    while words and words[0].startswith("-") and words[0].strip("-"):
        word = words.pop(0)
        name, equals, text = word.lstrip("-").partition("=")
        if name not in defaults:
            allowed = ", ".join(f"--{known}" for known in defaults) or "none"
            return Arguments(values, f"unknown argument {word!r}; allowed: {allowed}")
        if not equals:
            if isinstance(defaults[name], bool):
                text = "true"
            elif words:
                text = words.pop(0)
            else:
                return Arguments(values, f"--{name} needs a value")
        value = _read(text, defaults[name])
        if value is None:
            kind = "true or false" if isinstance(defaults[name], bool) else "a number"
            return Arguments(values, f"--{name}={text} is not {kind}")
        values[name] = value
    return Arguments(values)


def _read(text: str, default: Value) -> Value | None:
    if isinstance(default, bool):
        return parse_bool(text)
    return parse_int(text) if isinstance(default, int) else text
