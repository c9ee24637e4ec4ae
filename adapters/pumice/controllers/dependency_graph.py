"""Finds dependencies that cannot be satisfied, of tasks of a Job or of flows of a JobFlow."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet


def unsatisfiable(
    dependencies: Mapping[str, Collection[str]], needs_any: AbstractSet[str] = frozenset()
) -> list[str]:
    """Names that depend on themselves, directly or indirectly, or on names that do not exist.

    A name depends on all of its dependencies, or on one of them if it is in `needs_any`.
    """
    missing: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    for name, others in dependencies.items():
        distinct = set(others)
        missing[name] = 1 if name in needs_any else len(distinct)
        for one in distinct:
            dependents.setdefault(one, []).append(name)
    satisfied = [name for name in dependencies if not missing[name]]
    # The list grows during the iteration.
    for one in satisfied:
        for name in dependents.get(one, ()):
            missing[name] -= 1
            if not missing[name]:
                satisfied.append(name)
    found = set(satisfied)
    return [name for name in dependencies if name not in found]
