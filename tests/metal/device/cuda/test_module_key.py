"""The hash under which MLX keeps loaded binaries, and its inverse."""

import ctypes
import ctypes.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.metal.device.cuda.module_key import module_hash, short_key


@given(st.binary(max_size=200))
def test_eight_bytes_stand_for_any_text(text: bytes) -> None:
    assert len(short_key(text)) == 8
    assert module_hash(short_key(text)) == module_hash(text)


def test_a_long_binary_has_a_short_key() -> None:
    text = bytes(range(256)) * 300
    assert module_hash(short_key(text)) == module_hash(text)


@given(st.binary(max_size=64))
def test_the_hash_is_that_of_the_c_library(text: bytes) -> None:
    found = ctypes.util.find_library("stdc++")
    if found is None:
        pytest.skip("no libstdc++ here")
    function = ctypes.CDLL(found)._ZSt11_Hash_bytesPKvmm
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t]
    assert module_hash(text) == function(text, len(text), 0xC70F6907)
