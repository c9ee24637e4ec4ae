from numpy import bool_, float64, int64
from numpy.typing import NDArray

Floats = NDArray[float64]
Mask = NDArray[bool_]
Whole = NDArray[int64]
Parts = tuple[Floats, Floats, Mask, Floats, Whole, Floats, Floats, Floats, Whole, Floats]
Outputs = tuple[Mask, Mask, Mask, Floats, Floats, Floats]

VERSION: int

class Program: ...

def program(parts: Parts, stamps: Whole, outputs: Outputs, /) -> Program: ...
def evaluate(program: Program, since: int, /) -> int: ...
def forget(program: Program, /) -> None: ...
def choose(
    program: Program, within: Mask | None, count: int, terms: tuple[tuple[object, ...], ...], /
) -> tuple[list[int], int]: ...
def weigh(
    amounts: Floats, stamps: Whole, rows: list[int], weight: Floats, stamp: int, /
) -> None: ...
