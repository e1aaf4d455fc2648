"""The tuner asks Optuna, whose imports say nothing to users."""

import subprocess
import sys

import pytest

_IN_A_NOTEBOOK = """
import sys, types
import IPython
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
sys.modules["ipywidgets"] = None
IPython.get_ipython = lambda: object()
from kernelwright.agents.offline.tuner import _sampled
_sampled([], {}, 1)
print("tqdm.auto" in sys.modules)
"""


def test_a_notebook_without_widgets_shows_no_warning_of_tqdm() -> None:
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_NOTEBOOK], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
