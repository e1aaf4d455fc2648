"""What travels between an evaluator and its workers arrives as it was sent."""

import threading
from multiprocessing import Pipe

import ml_dtypes
import numpy as np
import pytest

from kernelwright.errors import DeviceError
from kernelwright.evaluator.worker.wire import (
    Reply,
    receive_reply,
    receive_request,
    send_reply,
    send_request,
)
from kernelwright.metal.device.executable import Array

LARGE = np.arange(1 << 20, dtype=np.int32).reshape(1024, 1024)
ARRAYS = (
    LARGE,
    LARGE.T,
    LARGE[:, ::2],
    LARGE.astype(ml_dtypes.bfloat16),
    LARGE.astype(np.complex64),
    LARGE % 3 == 0,
    np.zeros(3, np.float16),
    np.array(2.5, np.float32),
    np.zeros((0, 4), np.float32),
)


def _assert_same(found: Array, sent: Array) -> None:
    assert (found.dtype, found.shape) == (sent.dtype, sent.shape)
    assert found.tobytes() == sent.tobytes()


def test_arrays_of_a_request_arrive_with_their_bits() -> None:
    ours, theirs = Pipe()
    sender = threading.Thread(target=send_request, args=(ours, {"arrays": ARRAYS}))
    sender.start()
    received = receive_request(theirs)
    sender.join()
    assert isinstance(received, dict)
    for found, sent in zip(received["arrays"], ARRAYS, strict=True):
        _assert_same(found, sent)


def test_arrays_of_a_reply_arrive_with_their_bits() -> None:
    ours, theirs = Pipe()
    sender = threading.Thread(target=send_reply, args=(theirs, Reply({"seed": 3}, ARRAYS)))
    sender.start()
    received = receive_reply(ours)
    sender.join()
    assert received.header == {"seed": 3}
    for found, sent in zip(received.arrays, ARRAYS, strict=True):
        _assert_same(found, sent)


@pytest.mark.parametrize("shape", ["[-4]", "[1, 99999999999999999]", '["x"]'])
def test_a_reply_that_no_memory_could_hold_is_other_bytes(shape: str) -> None:
    ours, theirs = Pipe()
    theirs.send_bytes(f'{{"header": {{}}, "arrays": [["float32", {shape}]]}}'.encode())
    with pytest.raises(DeviceError, match="expected a worker's reply, found other bytes"):
        receive_reply(ours)


def test_a_worker_that_ends_within_an_array_is_gone() -> None:
    ours, theirs = Pipe()
    theirs.send_bytes(b'{"header": {}, "arrays": [["float32", [4]]]}')
    theirs.close()
    with pytest.raises(EOFError):
        receive_reply(ours)
