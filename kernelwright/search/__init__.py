"""What to try next: policy without IO, asked for proposals and told verdicts."""

from kernelwright.callable_room import make_callable

make_callable(__name__)
