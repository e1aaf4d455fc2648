"""What workers answer: JSON and raw arrays, never pickles, for a candidate may own its worker."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.ir.dtype import Dtype
from kernelwright.metal.device.base import Array

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


def send_reply(pipe: Connection, reply: Reply) -> None:
    """Write a reply to the pipe."""
    described = [[a.dtype.name, list(a.shape)] for a in reply.arrays]
    pipe.send_bytes(json.dumps({"header": reply.header, "arrays": described}).encode())
    for array in reply.arrays:
        if array.nbytes:
            pipe.send_bytes(array.tobytes())


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
    except (ValueError, KeyError, TypeError) as e:
        raise DeviceError(f"expected a worker's reply, found other bytes ({e}).") from e


def _receive_array(pipe: Connection, name: str, shape: Sequence[int]) -> Array:
    dtype = Dtype(name).numpy
    count = int(np.prod([int(extent) for extent in shape], dtype=np.int64))
    data = pipe.recv_bytes() if count else b""
    return np.frombuffer(data, dtype=dtype, count=count).reshape(tuple(shape))
