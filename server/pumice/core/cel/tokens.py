"""Splits an expression into tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from pumice.core.cel.values import CelError

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<float>\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)"
    r"|(?P<int>(?:0[xX][0-9a-fA-F]+|\d+)[uU]?)"
    r"|(?P<raw>[rR](?:\"[^\"\n]*\"|'[^'\n]*'))"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<name>[_a-zA-Z][_a-zA-Z0-9]*)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])"
)
_ESCAPES = {
    **{"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"},
    **{mark: mark for mark in "\\?\"'`"},
}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.S)
_LARGEST_INT = 2**63


class Token(NamedTuple):
    """A sign, a name or a literal; the end has the kind ``end``."""

    kind: str
    text: str
    value: object = None


def tokens_of(expression: str) -> list[Token]:
    found, place = [], 0
    while place < len(expression):
        match = _TOKEN.match(expression, place)
        if match is None:
            raise CelError(f"unexpected {expression[place]!r} at character {place + 1}")
        if match.lastgroup != "space":
            found.append(_token(str(match.lastgroup), match.group()))
        place = match.end()
    return [*found, Token("end", "")]


def _token(kind: str, text: str) -> Token:
    match kind:
        case "int":
            number = int(text.rstrip("uU"), 16 if text[:2] in ("0x", "0X") else 10)
            if number >= _LARGEST_INT:
                raise CelError(f"the number {text} is too large")
            return Token("value", text, number)
        case "float":
            return Token("value", text, float(text))
        case "raw":
            return Token("value", text, text[2:-1])
        case "text":
            return Token("value", text, _ESCAPE.sub(_unescape, text[1:-1]))
        case "name" if text in ("true", "false", "null"):
            return Token("value", text, {"true": True, "false": False, "null": None}[text])
        case _:
            return Token(kind, text)


def _unescape(match: re.Match[str]) -> str:
    text = match.group(1)
    if text[0] in "xuU" and len(text) > 1:
        code = int(text[1:], 16)
    elif len(text) > 1:
        code = int(text, 8)
    elif text in _ESCAPES:
        return _ESCAPES[text]
    else:
        raise CelError(f"unknown escape \\{text} in a text")
    if code > 0x10FFFF:
        raise CelError(f"unknown character \\{text} in a text")
    return chr(code)
