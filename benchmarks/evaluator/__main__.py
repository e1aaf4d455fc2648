"""`python -m benchmarks.evaluator COMMAND`: each command is a module of this folder."""

import sys
from importlib import import_module

from kernelwright.errors import KernelwrightError

COMMANDS = {
    "cost": "seconds of a verdict by stage, for a task's first candidate and the next",
    "corpus": "every entry of the corpus and every honest kernel, under several secrets",
    "edits": "honest kernels with one random token changed, until the time is over",
    "honest": "hand-written honest kernels under several secrets, in shards: none may be refused",
    "mutate": "thousands of mutants of every catalog task's kernels, and which stage refuses each",
    "nights": "simulated nights in which nothing is faster: what would be promoted?",
}
"""What each command does, by the name of its module, whose `main` reads its arguments."""


def main() -> int:
    """Run the command that the first argument names; return the process's exit status."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name not in COMMANDS:
        lines = (f"  {known:8s} {does}" for known, does in COMMANDS.items())
        print("python -m benchmarks.evaluator COMMAND [--help]", "", *lines, sep="\n")
        return 0 if name in ("-h", "--help") else 2
    try:
        import_module(f"benchmarks.evaluator.{name}").main(arguments)
    except KernelwrightError as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
