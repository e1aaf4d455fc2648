"""Signs of life: a run that gives none is dead, and another process may take it up."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from kernelwright.errors import StoreError
from kernelwright.store import KernelStore

BEAT_S = 5.0


class Heartbeat:
    """Tells the store every few seconds that a run goes on, and how long it has."""

    def __init__(
        self,
        store: KernelStore,
        campaign_id: str,
        *,
        lease: timedelta,
        elapsed_s: Callable[[], float],
        when_lost: Callable[[], None],
    ) -> None:
        """Prepare; `when_lost` is called once when another process has taken the run up."""
        self._store = store
        self._campaign_id = campaign_id
        self._lease = lease
        self._elapsed_s = elapsed_s
        self._when_lost = when_lost
        self._over = threading.Event()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Beat, on a thread of its own."""
        thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            if not self.beat():
                self._when_lost()
                return

    def beat(self) -> bool:
        """Give one sign of life; False when the run is another process's."""
        try:
            return self._store.beat(
                self._campaign_id, elapsed_s=self._elapsed_s(), lease=self._lease
            )
        except StoreError:
            # A full disk or a lock: whoever writes next says so. A later beat may get through.
            return True
