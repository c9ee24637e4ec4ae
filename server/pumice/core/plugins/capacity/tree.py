"""Builds the tree of queues, and what each queue may use."""

from __future__ import annotations

from pumice.core.model.resources import CPU, MEMORY, Resources
from pumice.core.plugins.capacity.accounts import CapacityAccount
from pumice.core.session.queues import UNLIMITED, inherit
from pumice.core.session.session import Session

ROOT = "root"


def tree_accounts(session: Session) -> dict[str, CapacityAccount] | str:
    """Accounts of all queues, linked; a text says why they do not form a tree that can be used.

    A parent that does not exist, a missing root or a job in a queue that has queues below it
    makes the whole tree unusable for the session. Queues in a cycle of parents have no path to the
    root: they and all queues below them get nothing.
    """
    accounts = {
        name: CapacityAccount(queue, None, Resources()) for name, queue in session.queues.items()
    }
    if ROOT not in accounts:
        return _fault(ROOT, "it does not exist")
    for name, account in accounts.items():
        if name != ROOT:
            above = account.queue.parent or ROOT
            if above not in accounts:
                return _fault(name, f"its parent {above} does not exist")
            account.parent = accounts[above]
            accounts[above].children.append(account)
    _break_cycles(accounts)
    for name in session.totals.queues():
        if children := accounts[name].children:
            return _fault(name, f"it has jobs and a child queue ({children[-1].name})")
        if (held := session.totals.of(name)) is not None:
            for account in accounts[name].lineage:
                account.absorb(held)
    _assign_amounts(accounts[ROOT], session)
    for account in accounts.values():
        # Shares of inner queues are those of this moment, so they are worked out now.
        _ = account.share
    return accounts


def _fault(queue: str, problem: str) -> str:
    return f"the queues form no tree: queue {queue}: {problem}, so nothing is scheduled"


def _break_cycles(accounts: dict[str, CapacityAccount]) -> None:
    """Removes one parent in every cycle, so that every path up ends."""
    ends: dict[str, None] = {}
    for account in accounts.values():
        way: dict[str, CapacityAccount] = {}
        here: CapacityAccount | None = account
        while here is not None and here.name not in ends and here.name not in way:
            way[here.name] = here
            here = here.parent
        if here is not None and here.name in way:
            here.parent = None
        ends.update(dict.fromkeys(way))


def _assign_amounts(root: CapacityAccount, session: Session) -> None:
    if root.capability.is_empty():
        scalars = sorted(session.table.offering_nodes.keys() - {CPU, MEMORY})
        root.capability = Resources(UNLIMITED, UNLIMITED, dict.fromkeys(scalars, UNLIMITED))
    root.real_capability = root.capability
    waiting = [root]
    while waiting:
        account = waiting.pop()
        _assign_children(account)
        waiting += account.children


def _assign_children(parent: CapacityAccount) -> None:
    guaranteed, deserved = Resources(), Resources()
    for child in parent.children:
        child.deserved.raise_to(child.guarantee)
        deserved.add(child.deserved)
        guaranteed.add(child.guarantee)
        inherit(child.capability, parent.capability)
    if parent.name == ROOT:
        parent.guarantee, parent.deserved = guaranteed, deserved
    unguaranteed = parent.real_capability.surplus_over(guaranteed)
    for child in parent.children:
        child.real_capability = unguaranteed.clone().add(child.guarantee)
        child.real_capability.lower_to(child.capability, missing_is_zero=False)
