"""Chance that only the seed decides, whatever the order in which things happen."""

import hashlib
import random


class Chance:
    """Draws by name: the same seed and name give the same number in any run."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, *name: object) -> float:
        """From 0, below 1."""
        text = "\0".join(map(str, (self._seed, *name)))
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def stream(self, *name: object) -> random.Random:
        """A generator of its own for one purpose."""
        return random.Random("\0".join(map(str, (self._seed, *name))))
