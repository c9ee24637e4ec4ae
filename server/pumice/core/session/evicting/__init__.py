"""The search for victims. Actions and the engine import it only from here.

``EvictingRun`` is the base of all evicting actions, and ``NodeEvictions`` that of preempt and reclaim.
For every task, preempt and reclaim search for a node where evictions make room, and for the victims
there. Only plugins know the victims, and they are called node by node, which is slow for many nodes.
So the search first finds the nodes where the victims might be enough:

1. *Candidates* are the tasks that the action may evict if the plugins allow it, for example the
   running tasks of other queues. The candidates of one job on one node are a *holding*.
2. A plugin with a ``VictimRule`` gives each job a *mark* and each preemptor a *limit*. A job can have
   victims only if its mark is above the limit; some rules allow no more victims than the difference.
   Marks are updated when tasks move.
3. The plugins of a tier must agree on victims. So the holdings that every plugin of the tier might
   allow are summed up by node, each with no more tasks than the rules allow. A node is *possible* if
   the sum, and what will be free there anyway, are enough for the task. The sum is an upper bound:
   a node that is not possible has too few victims.
4. The next preemptor of the same class uses the possible nodes of the last one again, and nodes that
   have changed since. This is valid as long as no mark is higher and no limit is lower than before.
   A cached node that fails is checked alone; after some failures step 3 is repeated for all nodes.
5. The possible nodes are tried, best first. The plugins select the victims on the node, and these are
   evicted in their order until the task fits. If it does not fit, the evictions are undone.
"""

from pumice.core.session.evicting.broken_gangs import break_up
from pumice.core.session.evicting.holdings import Holdings, VictimJobs
from pumice.core.session.evicting.node_evictions import NodeEvictions, frees_enough
from pumice.core.session.evicting.run import EvictingRun, EvictionReasons
from pumice.core.session.evicting.search import Preemptor, VictimScope

__all__ = [
    "EvictingRun",
    "EvictionReasons",
    "Holdings",
    "NodeEvictions",
    "Preemptor",
    "VictimJobs",
    "VictimScope",
    "break_up",
    "frees_enough",
]
