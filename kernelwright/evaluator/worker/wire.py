"""What workers are asked, and answer: JSON and raw arrays, for a candidate may own its worker.

Arrays go straight from where they are to where they stay: half a second's worth of a candidate's
time is copies otherwise.
"""

import json
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import DeviceError, OutdatedError
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array

Header = dict[str, object]


@dataclass(frozen=True)
class Reply:
    """An answer: a JSON header and arrays. `failure` names what went wrong, if anything did."""

    header: Header
    arrays: tuple[Array, ...] = ()

    @property
    def failure(self) -> str:
        """Empty, or one of the kinds that the service documents."""
        return str(self.header.get("failure", ""))

    def machine_error(self, said: str = "") -> DeviceError:
        """Return a failure that no candidate is to blame for; `said` begins its sentence."""
        kind = OutdatedError if self.failure == "request" else DeviceError
        return kind(f"{said}{self.header.get('message')}")


_INLINE_BYTES = 1 << 16
"""Smaller arrays travel inside the pickle of a request."""
_MOST_AT_ONCE = 1 << 30
"""macOS refuses to read 2 GB or more in one call (its `readv` manual page, EINVAL)."""


def send_request(pipe: Connection, request: object) -> None:
    """Write a request to the pipe: pickled, its large arrays after it."""
    arrays: list[memoryview] = []

    def is_inline(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= _INLINE_BYTES:
            arrays.append(raw)
        return raw.nbytes < _INLINE_BYTES

    pickled = pickle.dumps(request, protocol=5, buffer_callback=is_inline)
    pipe.send_bytes(json.dumps([array.nbytes for array in arrays]).encode())
    pipe.send_bytes(pickled)
    for array in arrays:
        _write(pipe, array)


def receive_request(pipe: Connection) -> object:
    """Read a request from the pipe.

    Raises:
        EOFError: whoever asks is gone.
        OutdatedError: it is of a program that is not the one on disk any more.
    """
    sizes, pickled = json.loads(pipe.recv_bytes()), pipe.recv_bytes()
    arrays = [_read(pipe, np.empty(size, np.uint8)) for size in sizes]
    try:
        return pickle.loads(pickled, buffers=arrays)
    except Exception as e:
        raise OutdatedError(
            f"the process that judges kernels cannot read its request ({type(e).__name__}: {e}): "
            "Kernelwright was changed or upgraded while it ran; start the program again."
        ) from e


def _write(pipe: Connection, data: memoryview) -> None:
    while data:
        data = data[os.write(pipe.fileno(), data) :]


def _read(pipe: Connection, array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Fill an array of bytes from the pipe."""
    left = array.data
    while left:
        count = os.readv(pipe.fileno(), [left[:_MOST_AT_ONCE]])
        if not count:
            raise EOFError
        left = left[count:]
    return array


def send_reply(pipe: Connection, reply: Reply) -> None:
    """Write a reply to the pipe."""
    described = [[a.dtype.name, list(a.shape)] for a in reply.arrays]
    pipe.send_bytes(json.dumps({"header": reply.header, "arrays": described}).encode())
    for array in reply.arrays:
        _write(pipe, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def receive_reply(pipe: Connection) -> Reply:
    """Read a reply, trusting nothing but its form.

    Raises:
        DeviceError: the bytes are no reply.
        EOFError: the worker is gone.
    """
    try:
        message = json.loads(pipe.recv_bytes())
        arrays = [_receive_array(pipe, name, shape) for name, shape in message["arrays"]]
        return Reply(dict(message["header"]), tuple(arrays))
    except (ValueError, KeyError, TypeError, MemoryError) as e:
        raise DeviceError(f"expected a worker's reply, found other bytes ({e}).") from e


def _receive_array(pipe: Connection, name: str, shape: Sequence[int]) -> Array:
    dtype = Dtype(name).numpy
    count = int(np.prod([int(extent) for extent in shape], dtype=np.int64))
    data = _read(pipe, np.empty(count * dtype.itemsize, np.uint8))
    return data.view(dtype).reshape(tuple(shape))
