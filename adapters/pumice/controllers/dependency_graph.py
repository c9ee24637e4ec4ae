"""Dependencies between the tasks of a Job, or between the flows of a JobFlow."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet


def never_free(
    wanted: Mapping[str, Collection[str]], needs_any: AbstractSet[str] = frozenset()
) -> list[str]:
    """Names that wait for themselves, directly or through others, or for names that do not exist.

    `wanted` has the names that each name waits for: for all of them, or for one of them if the waiting
    name is in `needs_any`.
    """
    missing: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    for name, others in wanted.items():
        distinct = set(others)
        missing[name] = 1 if name in needs_any else len(distinct)
        for one in distinct:
            dependents.setdefault(one, []).append(name)
    free = [name for name in wanted if not missing[name]]
    # The list grows while it is read.
    for one in free:
        for name in dependents.get(one, ()):
            missing[name] -= 1
            if not missing[name]:
                free.append(name)
    found = set(free)
    return [name for name in wanted if name not in found]
