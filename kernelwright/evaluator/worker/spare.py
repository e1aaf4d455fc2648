"""Workers that are opened before anybody needs one: starting a process and its driver takes long.

A search knows on which device it will judge long before it knows what.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Event, Lock, Thread

from kernelwright.errors import DeviceError
from kernelwright.evaluator.worker.process import Worker
from kernelwright.metal.device.base import DeviceInfo

Opened = tuple[Worker, DeviceInfo]
_spares: dict[object, deque[Future[Opened]]] = {}
_lock = Lock()


def open_spare(request: object, open_one: Callable[[], Opened]) -> None:
    """Begin to open a worker for whoever asks first for one that was opened by this request."""
    opening = Future[Opened]()

    def open_and_stay() -> None:
        if opening.set_running_or_notify_cancel():
            try:
                opening.set_result(open_one())
            except BaseException as e:
                opening.set_exception(e)
        # Linux kills a worker when the thread ends that opened it. No exit waits for this one.
        Event().wait()

    with _lock:
        _spares.setdefault(request, deque()).append(opening)
    Thread(target=open_and_stay, name="spare worker", daemon=True).start()


def take_spare(request: object) -> Opened | None:
    """Return a worker that was opened by a request, when it is; None where there is none."""
    while True:
        with _lock:
            waiting = _spares.get(request)
            if not waiting:
                return None
            opening = waiting.popleft()
        # One that did not open is told of where it is opened again.
        with suppress(DeviceError):
            worker, info = opening.result()
            if worker.is_alive:
                return worker, info


def close_spares() -> None:
    """End the workers that nobody took."""
    with _lock:
        left = [opening for waiting in _spares.values() for opening in waiting]
        _spares.clear()
    for opening in left:
        if not opening.cancel():
            opening.add_done_callback(_close)


def _close(opening: Future[Opened]) -> None:
    if opening.exception() is None:
        opening.result()[0].close()
