"""Arrays go from NumPy to MLX and back as the same bits, however they lie in memory."""

import numpy as np
import pytest

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.trace.array import to_mlx, to_numpy


# MLX makes float32 of NumPy's float64.
@pytest.mark.parametrize("dtype", [d for d in Dtype if d is not Dtype.FLOAT64])
def test_bits_stay_whatever_the_layout(dtype: Dtype) -> None:
    random = np.random.default_rng(1)
    whole = random.integers(0, 2 if dtype is Dtype.BOOL else 120, (4, 6, 8)).astype(dtype.numpy)
    for array in (whole, whole[:, 1:3], whole.T, whole[..., ::-2], whole[0, 0, 0:1].reshape(())):
        back = to_numpy(to_mlx(array))
        assert back.shape == array.shape
        assert back.dtype == array.dtype
        assert back.tobytes() == array.tobytes()
