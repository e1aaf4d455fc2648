"""The errors that Kernelwright raises: one sentence each, saying what to do."""

from collections.abc import Sequence


class KernelwrightError(Exception):
    """Anything a person can act on; the command line prints it as one line and exits 1."""


class InputError(KernelwrightError):
    """What the user gave cannot be used: a file, a function, a shape, a program."""


class UsageError(InputError):
    """A command was called with arguments that do not go together; it exits 2."""


class SearchRunsError(InputError):
    """Another process is at the same search; it may be waited for."""


class UnsupportedError(KernelwrightError):
    """A valid request that Kernelwright cannot serve yet; it names what is missing."""


class DeviceError(KernelwrightError):
    """A device, compiler or worker of this machine failed; the candidate is not to blame."""


class OutdatedError(DeviceError):
    """Kernelwright's files are others than those that run; only another start mends it."""


class StoreError(KernelwrightError):
    """The kernel store cannot be opened, read or written."""


class BlockedError(StoreError):
    """The kernel store cannot be written now and may be later: no room, or somebody's lock."""

    tries: int = 0
    """How often the same had failed before."""
    lasted_s: float = 0.0
    """For how long it has failed."""


class ConflictError(BlockedError):
    """Another writer of the kernel store came first; the same write may succeed at once."""


class ModelError(KernelwrightError):
    """A language model or its service failed in a way that a retry will not mend."""


class BudgetError(KernelwrightError):
    """A cap on money, tokens, time or evaluations would be exceeded."""


def raise_all(faults: Sequence[InputError]) -> None:
    """Raise one error that tells every fault; nothing where there is none.

    Raises:
        UsageError: the command alone is to blame.
        InputError: something else is, too.
    """
    if len(faults) == 1:
        raise faults[0]
    if faults:
        kind = UsageError if all(isinstance(e, UsageError) for e in faults) else InputError
        raise kind(" ".join(dict.fromkeys(map(str, faults)))) from faults[0]
