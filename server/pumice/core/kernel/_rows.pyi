from numpy import bool_, float64, int64
from numpy.typing import NDArray

Floats = NDArray[float64]
Mask = NDArray[bool_]
Whole = NDArray[int64]
Program = tuple[Floats, Floats, Mask, Floats, Whole, Floats, Floats]

VERSION: int

def evaluate(
    program: Program,
    stamps: Whole,
    since: int,
    outputs: tuple[Mask, Mask, Mask, Floats, Floats, Floats],
    /,
) -> int: ...
def choose(
    program: Program, totals: Floats, within: Mask | None, count: int, /
) -> tuple[list[int], int]: ...
def weigh(
    amounts: Floats, stamps: Whole, rows: list[int], weight: Floats, stamp: int, /
) -> None: ...
