"""The tree of queues and jobs for hierarchical fairness."""

from __future__ import annotations

from bisect import insort

from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources
from pumice.patterns.golang import parse_decimal

_PATH = "volcano.sh/hierarchy"
_WEIGHTS = "volcano.sh/hierarchy-weights"
_SEPARATOR = "/"


def path_of(queue: Queue) -> list[str]:
    """The queue's path in the hierarchy; the first name is that of the root."""
    return queue.annotations.get(_PATH, "").split(_SEPARATOR)


def weights_of(queue: Queue) -> list[float]:
    """A weight for each name of the path; a missing or invalid weight, or one below 1, counts as 1.

    Volcano crashes if there are fewer weights than names.
    """
    texts = queue.annotations.get(_WEIGHTS, "").split(_SEPARATOR)
    texts += [""] * (len(path_of(queue)) - len(texts))
    return [max(parse_decimal(text) or 1.0, 1.0) for text in texts]


class _Node:
    """A node of the tree: a job, or all jobs below one name of the paths."""

    def __init__(self, name: str, parent: _Group | None) -> None:
        self.name = name
        self.parent = parent
        self.allocated = Resources()
        self.share = 0.0
        self.saturated = False

    def set_state(self, share: float, *, saturated: bool) -> None:
        """Sets the state of the node, and updates the counts of its parent."""
        before, was_saturated = self.share, self.saturated
        self.share, self.saturated = share, saturated
        if self.parent is not None:
            self.parent.child_changed(self, before, was_saturated=was_saturated)


class _Leaf(_Node):
    """A job."""

    def __init__(self, name: str, parent: _Group, request: Resources) -> None:
        super().__init__(name, parent)
        self.request = request

    def recompute(self, total: Resources, demanding: frozenset[str]) -> None:
        self.set_state(
            self.allocated.dominant_share(total), saturated=self._is_saturated(demanding)
        )

    def _is_saturated(self, demanding: frozenset[str]) -> bool:
        """Whether the job has all that it requests of a resource, or requests an exhausted resource."""
        for name in self.allocated.names():
            requested = self.request.get(name)
            if requested and (self.allocated.get(name) >= requested or name not in demanding):
                return True
        return False


class _Group(_Node):
    """An inner node.

    It counts its children, so that after a change only children with a share are visited.
    """

    def __init__(self, name: str, parent: _Group | None, weight: float) -> None:
        super().__init__(name, parent)
        self.weight = weight
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[str, _Node] = {}
        # Names of the children with a share, sorted, because the order of float additions matters.
        self._active: list[str] = []
        self._unsaturated = 0

    def insert(self, child: _Node) -> None:
        self.children[child.name] = child
        self._unsaturated += 1

    def child_changed(self, child: _Node, before: float, *, was_saturated: bool) -> None:
        self._unsaturated += int(was_saturated) - int(child.saturated)
        if child.share and not before:
            insort(self._active, child.name)
        elif before and not child.share:
            self._active.remove(child.name)

    def recompute(self, total: Resources) -> None:
        """Computes the state from the children; the unsaturated ones are scaled to the smallest share."""
        children = [self.children[name] for name in self._active]
        smallest = min((c.share for c in children if not c.saturated), default=1.0)
        smallest = min(smallest, 1.0)
        self.allocated = Resources()
        for child in children:
            part = child.allocated
            if not child.saturated:
                part = part.clone().scale(smallest / child.share)
            self.allocated.add(part)
        self.set_state(self.allocated.dominant_share(total), saturated=self._unsaturated == 0)


class ShareTree:
    """Shares and saturation of all nodes; updated when queues are compared."""

    def __init__(self, total: Resources) -> None:
        self._total = total
        self._allocated = Resources()
        self._root = _Group("root", None, 1.0)
        self._jobs: dict[str, _Leaf] = {}
        self._changed: dict[str, _Leaf] = {}
        self._demanding: frozenset[str] = frozenset()

    def add_job(self, job_id: str, queue: Queue, held: Resources, request: Resources) -> None:
        """Adds a job; the first job below a name determines the weight of the name."""
        group = self._root
        for name, weight in list(zip(path_of(queue), weights_of(queue), strict=False))[1:]:
            child = group.children.get(name)
            if not isinstance(child, _Group):
                child = _Group(name, group, weight)
                group.insert(child)
            group = child
        leaf = self._jobs[job_id] = _Leaf(job_id, group, request)
        group.insert(leaf)
        self.set_held(job_id, held)

    def set_held(self, job_id: str, held: Resources) -> None:
        """Sets what a job holds."""
        leaf = self._jobs[job_id]
        self._allocated.add(held).subtract(leaf.allocated)
        leaf.allocated = held.clone()
        self._changed[job_id] = leaf

    def compare(self, left: Queue, right: Queue) -> float:
        """Compares two queues; negative: the left queue comes first.

        Level by level from the root, an unsaturated node comes before a saturated one, and then the
        node with the smaller share for its weight. Queues that are not in the tree equal all others.
        """
        self._refresh()
        parent = other_parent = self._root
        # The first name of a path is that of the root.
        for name, other_name in zip(path_of(left)[1:], path_of(right)[1:], strict=False):
            one, other = parent.children.get(name), other_parent.children.get(other_name)
            if not isinstance(one, _Group) or not isinstance(other, _Group):
                break
            if one.saturated != other.saturated:
                return 1.0 if one.saturated else -1.0
            difference = one.share / one.weight - other.share / other.weight
            if difference:
                return difference
            parent, other_parent = one, other
        return 0.0

    def _refresh(self) -> None:
        """Updates the changed nodes, or all nodes after a resource was exhausted or freed."""
        demanding = frozenset(
            name
            for name in self._total.names()
            if self._allocated.get(name) < self._total.get(name)
        )
        leaves = self._changed
        if demanding != self._demanding:
            self._demanding = demanding
            leaves = self._jobs
        stale: dict[_Group, None] = {}
        for leaf in leaves.values():
            leaf.recompute(self._total, demanding)
            group = leaf.parent
            while group is not None and group not in stale:
                stale[group] = None
                group = group.parent
        for group in sorted(stale, key=lambda g: -g.depth):
            group.recompute(self._total)
        self._changed = {}
