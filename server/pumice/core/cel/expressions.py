"""Parses expressions into functions of their variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from pumice.core.cel.functions import call, method, operate, whole
from pumice.core.cel.tokens import Token, tokens_of
from pumice.core.cel.values import CelError, MapValue, kind_of

# As Kubernetes' own limit.
MAX_LENGTH = 10_240
MAX_DEPTH = 64
# Elements that the macros of one expression may visit.
MAX_VISITS = 10_000

Variables = Mapping[str, object]
Node = Callable[[Variables], object]
# From weak to strong; operators of one line bind equally, from left to right.
_BINARY = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_MACROS = ("all", "exists", "exists_one", "filter", "map")


class Expression:
    """A parsed expression; it can be evaluated for any variables."""

    __slots__ = ("_node", "text")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise CelError(f"has {len(text)} characters; at most {MAX_LENGTH} are allowed")
        self.text = text
        self._node = _Parser(text).whole()

    def holds(self, variables: Variables) -> bool:
        """Evaluates the expression; raises CelError where that fails, or the result is not a bool."""
        value = self._node({**variables, _VISITS: [0]})
        if not isinstance(value, bool):
            raise CelError(f"the result is of type {kind_of(value)}, not bool")
        return value


_VISITS = " visits"


@lru_cache(maxsize=4096)
def compiled(text: str) -> Expression | str:
    """The expression, or what is wrong with it."""
    try:
        return Expression(text)
    except CelError as error:
        return str(error)


class _Parser:
    """A parser by recursive descent."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens_of(text)
        self._place = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._ternary()
        if self._peek.kind != "end":
            raise CelError(f"unexpected {self._peek.text!r}")
        return node

    @property
    def _peek(self) -> Token:
        return self._tokens[self._place]

    def _next(self) -> Token:
        token = self._tokens[self._place]
        self._place += 1
        return token

    def _is(self, text: str) -> bool:
        token = self._peek
        if token.kind in ("sign", "name") and token.text == text:
            self._place += 1
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._is(text):
            raise CelError(f"expected {text!r}, found {self._peek.text or 'the end'!r}")

    def _ternary(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CelError(f"is nested more than {MAX_DEPTH} deep")
        node = condition = self._binary(0)
        if self._is("?"):
            yes = self._binary(0)
            self._need(":")
            no = self._ternary()
            node = lambda v: yes(v) if _truth(condition(v)) else no(v)  # noqa: E731
        self._depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        node = self._binary(level + 1)
        while (sign := next((s for s in _BINARY[level] if self._is(s)), "")) != "":
            node = _operation(sign, node, self._binary(level + 1))
        return node

    def _unary(self) -> Node:
        count, sign = 0, self._peek.text if self._peek.kind == "sign" else ""
        while sign in ("!", "-") and self._is(sign):
            count += 1
        node = self._member()
        return _negated(node, sign, odd=bool(count % 2)) if count else node

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if self._is("."):
                name = self._name()
                node = self._call_of(node, name) if self._is("(") else _Field(node, name)
            elif self._is("["):
                index = self._ternary()
                self._need("]")
                node = _indexed(node, index)
            else:
                return node

    def _name(self) -> str:
        token = self._next()
        if token.kind != "name":
            raise CelError(f"expected a name, found {token.text or 'the end'!r}")
        return token.text

    def _call_of(self, target: Node, name: str) -> Node:
        if name in _MACROS:
            variable = self._name()
            self._need(",")
            body = self._ternary()
            self._need(")")
            return _macro(name, target, variable, body)
        arguments = self._items(")")
        return lambda v: method(name, target(v), [argument(v) for argument in arguments])

    def _items(self, end: str) -> list[Node]:
        """Expressions separated by commas, up to a sign; a list may end with a comma."""
        found: list[Node] = []
        while not self._is(end):
            if found:
                self._need(",")
                if end == "]" and self._is(end):
                    break
            found.append(self._ternary())
        return found

    def _primary(self) -> Node:
        token = self._next()
        if token.kind == "value":
            return lambda _: token.value
        if token.kind == "name":
            return self._named(token.text)
        if token.text == "(":
            node = self._ternary()
            self._need(")")
            return node
        if token.text == "[":
            items = self._items("]")
            return lambda v: tuple([item(v) for item in items])
        raise CelError(f"unexpected {token.text or 'end'!r}")

    def _named(self, name: str) -> Node:
        if name == "cel" and self._peek.text == ".":
            return self._bound()
        if not self._is("("):
            return _variable(name)
        if name == "has":
            inner = self._ternary()
            self._need(")")
            return _has(inner)
        arguments = self._items(")")
        return lambda v: call(name, [argument(v) for argument in arguments])

    def _bound(self) -> Node:
        """``cel.bind(name, value, expression)``."""
        self._need(".")
        self._need("bind")
        self._need("(")
        name = self._name()
        self._need(",")
        value = self._ternary()
        self._need(",")
        body = self._ternary()
        self._need(")")
        return lambda v: body({**v, name: value(v)})


def _variable(name: str) -> Node:
    def read(variables: Variables) -> object:
        if name not in variables:
            raise CelError(f"{name} is not known here")
        return variables[name]

    return read


class _Field:
    """A field of a map; ``has`` asks whether it is there."""

    __slots__ = ("_name", "_target")

    def __init__(self, target: Node, name: str) -> None:
        self._target = target
        self._name = name

    def __call__(self, variables: Variables) -> object:
        return self._map(variables).get(self._name)

    def is_there(self, variables: Variables) -> bool:
        return self._name in self._map(variables).items

    def _map(self, variables: Variables) -> MapValue:
        target = self._target(variables)
        if not isinstance(target, MapValue):
            raise CelError(f"{kind_of(target)} has no field {self._name}")
        return target


def _has(inner: Node) -> Node:
    if not isinstance(inner, _Field):
        raise CelError("has() needs a field, such as has(a.b)")
    return inner.is_there


def _indexed(target: Node, index: Node) -> Node:
    def read(variables: Variables) -> object:
        held, key = target(variables), index(variables)
        if isinstance(held, MapValue):
            return held.get(key)
        if isinstance(held, tuple) and isinstance(key, int) and not isinstance(key, bool):
            if 0 <= key < len(held):
                return held[key]
            raise CelError(f"index out of bounds: {key}")
        raise CelError(f"{kind_of(held)}[{kind_of(key)}] is not supported")

    return read


def _operation(sign: str, left: Node, right: Node) -> Node:
    if sign in ("||", "&&"):
        return _logical(left, right, decisive=sign == "||")
    return lambda v: operate(sign, left(v), right(v))


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{kind_of(value)} is not true or false")
    return value


def _logical(left: Node, right: Node, *, decisive: bool) -> Node:
    """``&&`` and ``||``: a side that decides the result counts, even if the other side fails."""

    def decide(variables: Variables) -> bool:
        try:
            first = _truth(left(variables))
        except CelError:
            if _truth(right(variables)) is decisive:
                return decisive
            raise
        return first if first is decisive else _truth(right(variables))

    return decide


def _negated(node: Node, sign: str, *, odd: bool) -> Node:
    def negate(variables: Variables) -> object:
        value = node(variables)
        if sign == "!":
            return _truth(value) is not odd
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CelError(f"-{kind_of(value)} is not supported")
        if not odd:
            return value
        return whole(-value) if isinstance(value, int) else -value

    return negate


def _macro(name: str, target: Node, variable: str, body: Node) -> Node:
    def run(variables: Variables) -> object:
        held = target(variables)
        items = tuple(held.items) if isinstance(held, MapValue) else held
        if not isinstance(items, tuple):
            raise CelError(f"{kind_of(held)}.{name}() is not supported")
        visits = variables[_VISITS]
        assert isinstance(visits, list)
        visits[0] += len(items)
        if visits[0] > MAX_VISITS:
            raise CelError(f"visits more than {MAX_VISITS} elements")
        results = [(item, _tried(body, {**variables, variable: item})) for item in items]
        return _macro_result(name, results)

    return run


def _tried(body: Node, variables: Variables) -> object:
    try:
        return body(variables)
    except CelError as error:
        return error


def _macro_result(name: str, results: list[tuple[object, object]]) -> object:
    """The value of a macro; one element can decide ``all`` and ``exists``, even if others fail."""
    decisive = {"all": False, "exists": True}.get(name)
    if decisive is not None and any(result is decisive for _, result in results):
        return decisive
    for _, result in results:
        if isinstance(result, CelError):
            raise result
    match name:
        case "map":
            return tuple(result for _, result in results)
        case "filter":
            return tuple(item for item, result in results if _truth(result))
        case "exists_one":
            return sum(_truth(result) for _, result in results) == 1
        case "all":
            return all(_truth(result) for _, result in results)
        case _:
            return False
