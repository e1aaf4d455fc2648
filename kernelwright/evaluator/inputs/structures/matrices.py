"""Square matrices as users have them: identity, diagonal, triangular, symmetric, permutation."""

from collections.abc import Callable

import numpy as np

from kernelwright.evaluator.inputs.draw import Random, Values

MatrixDraw = Callable[[int, Random], Values]


def _normal(size: int, random: Random) -> Values:
    return random.standard_normal((size, size), np.float32)


def _identity(size: int, random: Random) -> Values:
    return np.eye(size, dtype=np.float32)


def _diagonal(size: int, random: Random) -> Values:
    return np.diag(random.standard_normal(size).astype(np.float32))


def _upper(size: int, random: Random) -> Values:
    return np.triu(_normal(size, random))


def _lower(size: int, random: Random) -> Values:
    return np.tril(_normal(size, random))


def _symmetric(size: int, random: Random) -> Values:
    upper = np.triu(_normal(size, random))
    return np.asarray(upper + np.triu(upper, 1).T)


def _skew(size: int, random: Random) -> Values:
    upper = np.triu(_normal(size, random), 1)
    return np.asarray(upper - upper.T)


def _permutation(size: int, random: Random) -> Values:
    return np.eye(size, dtype=np.float32)[random.permutation(size)]


def _stochastic(size: int, random: Random) -> Values:
    values = random.random((size, size), np.float32)
    return np.asarray(values / values.sum(1, keepdims=True))


def _banded(size: int, random: Random) -> Values:
    return np.asarray(np.triu(np.tril(_normal(size, random), 1), -1))


MATRICES: tuple[MatrixDraw, ...] = (
    *(_identity, _diagonal, _upper, _lower, _symmetric, _skew, _permutation, _stochastic, _banded),
)
