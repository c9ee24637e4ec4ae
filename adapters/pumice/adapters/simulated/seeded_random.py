"""Random numbers that depend on the seed and a name, and not on the order of draws."""

import hashlib
import random


class SeededRandom:
    """Draws numbers by name. The same seed and name give the same number in any run."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, *name: object) -> float:
        """A number from 0 to below 1."""
        text = "\0".join(map(str, (self._seed, *name)))
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def generator(self, *name: object) -> random.Random:
        """A generator for one purpose."""
        return random.Random("\0".join(map(str, (self._seed, *name))))
