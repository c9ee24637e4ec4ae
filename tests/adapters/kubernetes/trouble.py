"""What goes wrong with calls to a fake API server."""

import re
from dataclasses import dataclass, field


@dataclass
class Trouble:
    """What happens to calls of some kind, so many times."""

    method: str
    path: str
    times: int = 1
    status: int = 500
    message: str = "trouble"
    headers: dict[str, str] = field(default_factory=dict)
    # The call takes effect and the connection breaks.
    loses_answer: bool = False
    seconds: float = 0.0
    # The call takes effect, only later; and its answer comes later still.
    passes: bool = False
    answer_seconds: float = 0.0

    def strikes(self, method: str, path: str) -> bool:
        if not self.times or self.method != method or not re.search(self.path, path):
            return False
        self.times -= 1
        return True
