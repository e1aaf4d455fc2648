"""Cuts captured functions into tasks, and lets nobody wait for a model after a stop."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

from kernelwright.agents.protocols import Planner
from kernelwright.campaign.execution.run_control import RunControl
from kernelwright.campaign.planning.capturing import Captured, FunctionPlan, plan_function
from kernelwright.metal.device.base import DeviceInfo

_POLL_S = 0.05
_AT_ONCE = 4
"""Functions that are cut side by side: most of the time goes by waiting for a model."""


def plan_functions(
    captured: Captured, planner: Planner, device: DeviceInfo, control: RunControl
) -> Iterator[FunctionPlan]:
    """Yield the plans in the functions' order; no more once a stopped run is out of patience."""
    waiting, begun = deque(captured.functions), deque[Future[FunctionPlan]]()
    while waiting or begun:
        while waiting and len(begun) < _AT_ONCE:
            begun.append(_begun(partial(plan_function, waiting.popleft(), planner, device)))
        plan = begun.popleft()
        while not plan.done():
            if control.is_out_of_patience:
                return
            control.pass_time(_POLL_S)
        yield plan.result()


def _begun(work: Callable[[], FunctionPlan]) -> Future[FunctionPlan]:
    """Begin work on a thread that nobody joins: it may wait for a model for minutes."""
    future = Future[FunctionPlan]()

    def fulfil() -> None:
        try:
            future.set_result(work())
        except BaseException as e:
            future.set_exception(e)

    threading.Thread(target=fulfil, name="plan", daemon=True).start()
    return future
