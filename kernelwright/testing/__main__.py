"""`python -m kernelwright.testing PLAN.toml campaign run FILE.toml`: a rehearsal of faults.

The words after the plan are those of `kernelwright`; its campaigns meet the faults of the plan.
"""

import sys
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.service.cli import main
from kernelwright.service.exit_code import MISUSED
from kernelwright.testing.fault.rehearsal import Rehearsal

_USAGE = "usage: python -m kernelwright.testing PLAN.toml campaign {run,resume} ...\n"


def rehearse() -> None:
    """Take the plan off the arguments and run the command line under it."""
    if len(sys.argv) < 3:
        sys.stderr.write(_USAGE)
        sys.exit(MISUSED)
    try:
        rehearsal = Rehearsal(Path(sys.argv.pop(1)))
    except KernelwrightError as e:
        sys.exit(f"error {e}")
    main(rehearsal)


if __name__ == "__main__":
    rehearse()
