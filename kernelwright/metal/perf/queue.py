"""What resources that simdgroups queue for let through: mean value analysis.

A core holds a number of simdgroups. Each in turn waits on its own (for memory's latency, at
barriers) and queues for what it shares with the others (memory's bandwidth, the issue of
instructions). With few of them nothing overlaps, with many the scarcest resource decides, and what
lies between needs no constant. The algorithm is M. Reiser and S. S. Lavenberg, "Mean-Value Analysis
of Closed Multichain Queuing Networks", Journal of the ACM 27 (1980), for one chain.
"""

from collections.abc import Sequence


def throughput(wait: float, services: Sequence[float], customers: int) -> float:
    """Return how many customers pass in a unit of time.

    `wait` is the time that a customer spends on its own, `services` what it takes of each shared
    resource, both in that unit.
    """
    queues = [0.0] * len(services)
    passed = 0.0
    for present in range(1, max(customers, 1) + 1):
        stays = [service * (1 + queue) for service, queue in zip(services, queues, strict=True)]
        passed = present / (wait + sum(stays))
        queues = [passed * stay for stay in stays]
    return passed
