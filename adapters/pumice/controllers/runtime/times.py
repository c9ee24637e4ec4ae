"""Times of Kubernetes objects."""

from datetime import UTC, datetime
from functools import lru_cache


# Objects that are created together have the same time, so most texts repeat.
@lru_cache(maxsize=1024)
def milliseconds(text: str) -> int:
    """Unix milliseconds of a time in Kubernetes' format; 0: the text is empty or not a time."""
    if not text:
        return 0
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def shown(time_ms: int) -> str:
    """A metav1.Time, which has whole seconds."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown_exactly(time_ms: int) -> str:
    """A time with milliseconds, for annotations."""
    return f"{shown(time_ms).removesuffix('Z')}.{time_ms % 1000:03d}Z"


def shown_duration(time_ms: int) -> str:
    """A metav1.Duration in whole seconds and Go's format, such as `1h2m3s`."""
    seconds = max(0, time_ms // 1000)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
