"""Where keys come from, and how they stay out of everything that is written."""

import os

import keyring
from keyring.errors import KeyringError

from kernelwright.errors import ModelError

KEYRING_SERVICE = "kernelwright"
_HIDDEN = "[key]"


class Key:
    """A secret whose every rendering hides it."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def reveal(self) -> str:
        """Return the secret; only a provider's client may call this."""
        return self._secret

    def redact(self, text: str) -> str:
        """Remove the secret from what a server or an SDK said."""
        return text.replace(self._secret, _HIDDEN) if self._secret else text

    def __repr__(self) -> str:
        return "Key(hidden)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a key cannot be pickled")


def variable_of(provider: str) -> str:
    """Return the environment variable that holds a provider's key."""
    return f"{provider.upper()}_API_KEY"


def find_key(provider: str, *, is_required: bool = True) -> Key:
    """Return a provider's key from the environment, else from the system's keyring.

    Raises:
        ModelError: a key is required and neither place has one.
    """
    variable = variable_of(provider)
    secret = os.environ.get(variable, "").strip() or _from_keyring(provider)
    if not secret and is_required:
        raise ModelError(
            f"expected a key for {provider}, found none; set {variable}, or store one with "
            f"`keyring set {KEYRING_SERVICE} {provider}`."
        )
    return Key(secret)


def _from_keyring(provider: str) -> str:
    try:
        return keyring.get_password(KEYRING_SERVICE, provider) or ""
    except (KeyringError, OSError):
        # A machine without a keyring has no key there.
        return ""
