"""Everything here runs on the CPU, where a graph has to give MLX's own bits."""

import sys
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

# The room's shared cases are a module beside the tests.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _on_the_cpu() -> Iterator[None]:
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)
