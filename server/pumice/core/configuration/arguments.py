"""Declarations of the arguments of plugins and actions.

The attributes of a subclass of ``Arguments`` are declarations. A declaration says what the reader of
a configuration accepts, what the documentation shows, and which value the plugin gets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from pumice.core.configuration.argument_types import ArgumentType, Limit
from pumice.patterns.golang import parse_duration_ns

T = TypeVar("T")
_Members = TypeVar("_Members", bound="Arguments")


@dataclass(frozen=True, slots=True)
class Argument(Generic[T]):
    """One argument; an attribute of an instance of ``Arguments`` is the value in use."""

    # The name in configurations, or the beginning of the names.
    name: str
    # None: any value is accepted, because none has an effect.
    kind: ArgumentType | None
    # The default in the documentation; None: it is not shown.
    default: object
    # What the argument is for; empty where it has no effect.
    meaning: str
    # Reads the value in use from all given values.
    read: Callable[[Arguments], T]
    limit: Limit | None = None
    # The arguments in a mapping, or in each mapping of a list; None: they are not checked.
    members: type[Arguments] | None = None
    # Why the argument is accepted and does nothing; empty: it does something.
    why_without_effect: str = ""
    # Whether ``name`` is only the beginning of the names.
    is_prefix: bool = False
    # A regular expression for names that begin with the prefix, and its description for messages.
    name_pattern: str = ""
    name_form: str = ""

    @overload
    def __get__(self, arguments: None, owner: type) -> Self: ...

    @overload
    def __get__(self, arguments: Arguments, owner: type) -> T: ...

    def __get__(self, arguments: Arguments | None, owner: type) -> Self | T:
        return self if arguments is None else self.read(arguments)

    def is_named(self, key: str) -> bool:
        """Whether a key of a configuration is this argument."""
        if not self.is_prefix:
            return key == self.name
        if not key.startswith(self.name):
            return False
        if self.kind is None:
            return True
        # An empty prefix stands for any name.
        fits = not self.name_pattern or re.fullmatch(self.name_pattern, key) is not None
        return fits and len(key) > len(self.name)

    @property
    def shown_name(self) -> str:
        """The name as messages and the documentation show it."""
        if not self.is_prefix:
            return self.name
        return f"{self.name}*" if self.kind is None else f"{self.name}<name>"


class Arguments:
    """The arguments of one plugin or action, already of the right types.

    The class itself declares no arguments. A plugin declares its own in a subclass.
    """

    __slots__ = ("_values",)

    # Names first, then prefixes, then arguments of no type; each in the order of declaration.
    declared: ClassVar[tuple[Argument[Any], ...]] = ()

    def __init_subclass__(cls) -> None:
        own: dict[str, Argument[Any]] = {}
        for attribute, argument in vars(cls).items():
            if not isinstance(argument, Argument):
                continue
            if hasattr(Arguments, attribute):
                raise TypeError(f"{cls.__name__}.{attribute}: Arguments uses this name itself")
            if argument.name in own:
                raise TypeError(f"{cls.__name__} declares the argument {argument.name!r} twice")
            own[argument.name] = argument
        inherited = (each for each in cls.declared if each.name not in own)
        cls.declared = tuple(
            sorted(
                (*inherited, *own.values()), key=lambda each: (each.kind is None, each.is_prefix)
            )
        )

    def __init__(self, values: Mapping[str, object] | Arguments | None = None) -> None:
        self._values: dict[str, object]
        self._values = values._values if isinstance(values, Arguments) else dict(values or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arguments) and self._values == other._values

    def __hash__(self) -> int:
        return hash(json.dumps(self._values, sort_keys=True, default=str))

    def __repr__(self) -> str:
        return f"Arguments({dict(self.items())})"

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def items(self) -> list[tuple[str, object]]:
        return sorted(self._values.items())

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def why_not(self) -> str | None:
        """What is wrong with the values taken together; None: nothing. For subclasses to override."""
        return None

    @classmethod
    def find(cls, key: str) -> Argument[Any] | None:
        """The declaration of a key of a configuration; None: there is no such argument."""
        return next((each for each in cls.declared if each.is_named(key)), None)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The known actions and plugins, with their arguments."""

    actions: Mapping[str, type[Arguments]]
    plugins: Mapping[str, type[Arguments]]
    # Plugins that are installed and cannot be used, and why.
    refused: Mapping[str, str] = field(default_factory=dict)
    # The names of Volcano's actions and plugins, by ``action`` and ``plugin``.
    volcano: Mapping[str, frozenset[str]] = field(default_factory=dict)


# Declarations by type.


def integer(name: str, default: int, meaning: str, limit: Limit | None = None) -> Argument[int]:
    """A whole number."""
    return _declare(name, ArgumentType.INT, default, meaning, limit, int)


def number(name: str, default: float, meaning: str, limit: Limit | None = None) -> Argument[float]:
    """A number."""
    return _declare(name, ArgumentType.FLOAT, default, meaning, limit, float)


def boolean(name: str, meaning: str, *, default: bool) -> Argument[bool]:
    """True or false."""
    return _declare(name, ArgumentType.BOOL, default, meaning, None, bool)


def text(name: str, default: str, meaning: str, limit: Limit | None = None) -> Argument[str]:
    """A text."""
    return _declare(name, ArgumentType.STRING, default, meaning, limit, str)


def texts(name: str, meaning: str) -> Argument[tuple[str, ...]]:
    """A list of texts, empty by default."""
    return Argument(
        name, ArgumentType.STRINGS, None, meaning, lambda given: tuple(given.get(name) or ())
    )


def names(name: str, meaning: str) -> Argument[tuple[str, ...]]:
    """Names in one text, with commas between them; none by default."""

    def split(written: str) -> tuple[str, ...]:
        return tuple(filter(None, map(str.strip, written.split(","))))

    return _declare(name, ArgumentType.STRING, "", meaning, None, split)


@overload
def duration(
    name: str, default: str, meaning: str, limit: Limit | None = None
) -> Argument[int]: ...


@overload
def duration(
    name: str, default: None, meaning: str, limit: Limit | None = None
) -> Argument[int | None]: ...


def duration(
    name: str, default: str | None, meaning: str, limit: Limit | None = None
) -> Argument[int] | Argument[int | None]:
    """A duration in nanoseconds; configurations have Go's form, such as 1h2m3s."""
    return _declare(name, ArgumentType.DURATION, default, meaning, limit, _nanoseconds)


def quantity(name: str, default: str, meaning: str) -> Argument[int | str]:
    """A quantity of Kubernetes, as it is written."""
    return _declare(name, ArgumentType.QUANTITY, default, meaning, None, lambda value: value)


def mapping(
    name: str, members: type[_Members], meaning: str, default: str = ""
) -> Argument[_Members]:
    """A mapping with arguments of its own; ``default`` says what is used without it."""
    return Argument(
        name,
        ArgumentType.MAP,
        default or None,
        meaning,
        lambda given: members(given.get(name)),
        members=members,
    )


def mappings(
    name: str, members: type[_Members], meaning: str, default: str = ""
) -> Argument[tuple[_Members, ...]]:
    """A list of mappings with arguments of their own; ``default`` says what is used without it."""
    return Argument(
        name,
        ArgumentType.LIST,
        default or None,
        meaning,
        lambda given: tuple(map(members, given.get(name) or ())),
        members=members,
    )


def by_name(
    argument: Argument[T], *, pattern: str = "", form: str = ""
) -> Argument[ValuesByName[T]]:
    """One argument for each of many names, which begin with the name of ``argument``.

    An empty beginning stands for any name that matches the pattern.
    """
    prefix, default = argument.name, argument.read(Arguments())

    def read(given: Arguments) -> ValuesByName[T]:
        values = ValuesByName[T](default)
        for key, value in given.items():
            if key.startswith(prefix):
                values[key.removeprefix(prefix)] = argument.read(Arguments({prefix: value}))
        return values

    found: Argument[Any] = argument
    return replace(found, read=read, is_prefix=True, name_pattern=pattern, name_form=form)


def ignored(name: str, why: str, kind: ArgumentType | None = None) -> Argument[None]:
    """An argument that is accepted and does nothing.

    A name that ends in ``*`` stands for all names with this beginning. A value must be of the type,
    if a type is given.
    """
    return Argument(
        name.removesuffix("*"),
        kind,
        None,
        "",
        lambda _: None,
        why_without_effect=why,
        is_prefix=name.endswith("*"),
    )


class ValuesByName(dict[str, T]):
    """Values by name; a name that is not given has the default."""

    def __init__(self, default: T) -> None:
        super().__init__()
        self._default = default

    def __missing__(self, name: str) -> T:
        return self._default


def _declare(
    name: str,
    kind: ArgumentType,
    default: Any,
    meaning: str,
    limit: Limit | None,
    convert: Callable[[Any], T],
) -> Argument[Any]:
    used = None if default is None else convert(default)

    def read(given: Arguments) -> T | None:
        value = given.get(name)
        return used if value is None else convert(value)

    return Argument(name, kind, default, meaning, read, limit)


def _nanoseconds(written: str) -> int:
    found = parse_duration_ns(written)
    if found is None:
        raise ValueError(f"{written!r} is not a duration")
    return found
