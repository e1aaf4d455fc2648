"""One warm evaluator for each test process."""

from collections.abc import Iterator

import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator

CONFIG = EvaluatorConfig(secret="tests", run_timeout_s=2, generic_shapes=4)


@pytest.fixture(scope="session")
def evaluator() -> Iterator[Evaluator]:
    """Judge on the simulator, up to the prediction of time."""
    with Evaluator(config=CONFIG) as evaluator:
        yield evaluator
