"""Whose fault an error is, and what is said of it."""

from kernelwright.errors import InputError, KernelwrightError, UnsupportedError
from kernelwright.validation import words_of


def is_machines(error: Exception) -> bool:
    """Say whether more than one task fails for this reason: a device, a store, a model's key."""
    is_own = isinstance(error, InputError | UnsupportedError)
    return isinstance(error, KernelwrightError) and not is_own


def described(error: Exception) -> str:
    """Return an error in a line; the kind too, where it is a fault of our own."""
    said = words_of(error).rstrip(".")
    return said if isinstance(error, KernelwrightError) else f"{type(error).__name__}: {said}"
