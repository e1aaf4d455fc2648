"""Whether lanes that come to one place may have gone round a loop by different numbers."""

from kernelwright.metal.device.simulator.control_flow import natural_loops
from kernelwright.metal.device.simulator.wide.flow import Flow
from kernelwright.metal.device.simulator.wide.uniform import Uniformity


def may_lag(flow: Flow, uniformity: Uniformity) -> bool:
    """Say whether a lane may pass an operation by, and wait there with others in a later round.

    All that tells the runtime where lanes are is the stop that they have come to. It tells the
    round as well, unless a lane can go round a loop without any stop while others come to one.
    """
    successors = {label: piece.successors for label, piece in flow.pieces.items()}
    partings = list(uniformity.partings())
    return any(
        _has_idle_round(flow, head, body)
        and any(label in body and _waits(flow, between & body) for label, between in partings)
        for head, body in natural_loops(successors, flow.start).items()
    )


def _waits(flow: Flow, labels: frozenset[str]) -> bool:
    stops = (flow.pieces[label].stop for label in labels)
    return any(stop is not None and stop.kind != "barrier" for stop in stops)


def _has_idle_round(flow: Flow, head: str, body: set[str]) -> bool:
    """Say whether a way leads round a loop without any stop."""
    seen, pending = set[str](), [head]
    while pending:
        piece = flow.pieces[pending.pop()]
        for following in piece.successors if piece.stop is None else ():
            if following == head:
                return True
            if following in body and following not in seen:
                seen.add(following)
                pending.append(following)
    return False
