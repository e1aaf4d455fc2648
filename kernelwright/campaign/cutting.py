"""Cuts captured functions into tasks, and lets nobody wait for a model after a stop."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

from kernelwright.agents.role import Planner
from kernelwright.campaign.planning import Captured, FunctionPlan, plan_function
from kernelwright.campaign.vigil import Vigil
from kernelwright.metal.device.base import DeviceInfo

_POLL_S = 0.05


def plan_functions(
    captured: Captured, planner: Planner, device: DeviceInfo, vigil: Vigil
) -> Iterator[FunctionPlan]:
    """Yield the plan of each function; nothing more once a stopped run is out of patience."""
    for function in captured.functions:
        plan = _begun(partial(plan_function, function, planner, device))
        while not plan.done():
            if vigil.is_out_of_patience:
                return
            vigil.pass_time(_POLL_S)
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
