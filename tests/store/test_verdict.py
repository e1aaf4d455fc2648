"""Evaluations are read from the store, whichever version wrote them."""

import json

import pytest

from kernelwright.errors import StoreError
from kernelwright.store.verdict import read_evaluation
from tests.store.conftest import program_of, task_of, verdict


def test_what_a_newer_version_wrote_is_one_sentence() -> None:
    written = json.loads(verdict(task_of((4, 8)), program_of("body")).model_dump_json())
    assert read_evaluation(json.dumps(written)).program == written["program"]
    with pytest.raises(StoreError, match=r"cannot read \(novelty\), .* upgrade with: pip install"):
        read_evaluation(json.dumps({**written, "novelty": 1}))
