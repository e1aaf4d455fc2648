"""Where keys come from, and how they stay out of everything that is written."""

import os
import re

from kernelwright.errors import ModelError

KEYRING_SERVICE = "kernelwright"
_HIDDEN = "[key]"
_KEY_VARIABLE = "_API_KEY"
_SHORTEST_KEY = 8
_TELLING = 16
"""How many of a key's first characters are hidden by themselves: prefixes are no secrets."""


class Key:
    """A secret whose every rendering hides it."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def reveal(self) -> str:
        """Return the secret; only a provider's client may call this."""
        return self._secret

    def redact(self, text: str) -> str:
        """Remove the secret, and other providers' keys, from what a server or an SDK said.

        A proxy may quote the key that it uses itself, and a quote may end in the middle of a key.
        """
        for secret in sorted({self._secret, *_environment_keys()}, key=len, reverse=True):
            if secret:
                text = _beginning_of(secret).sub(_HIDDEN, text)
        return text

    def __repr__(self) -> str:
        return "Key(hidden)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a key cannot be pickled")


def _environment_keys() -> list[str]:
    """Return the values of all variables that are named as a provider's key."""
    values = (v.strip() for name, v in os.environ.items() if name.upper().endswith(_KEY_VARIABLE))
    # What is shorter is no key, and would be found inside of words.
    return [value for value in values if len(value) >= _SHORTEST_KEY]


def _beginning_of(secret: str) -> re.Pattern[str]:
    """Return a pattern for a secret, whole or cut off behind its first characters."""
    if len(secret) < _SHORTEST_KEY:
        # What servers of one's own are given for a key, such as `none`, is a part of other words.
        return re.compile(rf"\b{re.escape(secret)}\b")
    head, tail = secret[:_TELLING], secret[_TELLING:]
    rest = "".join(f"(?:{re.escape(character)}" for character in tail) + ")?" * len(tail)
    return re.compile(re.escape(head) + rest)


def variable_of(provider: str) -> str:
    """Return the environment variable that holds a provider's key."""
    return f"{provider.upper()}_API_KEY"


def find_key(provider: str, *, is_required: bool = True) -> Key:
    """Return a provider's key from the environment, else from the system's keyring.

    Raises:
        ModelError: a key is required and neither place has one, or what is there is no key.
    """
    variable = variable_of(provider)
    secret = os.environ.get(variable, "").strip() or _from_keyring(provider)
    if not secret and is_required:
        raise ModelError(
            f"expected a key for {provider}, found none; set {variable}, or store one with "
            f"`keyring set {KEYRING_SERVICE} {provider}`."
        )
    # It travels in a header, which holds nothing else.
    if (stray := next((c for c in secret if not "!" <= c <= "~"), None)) is not None:
        found = "a line break" if stray in "\r\n" else f"the character {stray!a}"
        raise ModelError(
            f"expected the key for {provider} alone, in ASCII and without blanks, found {found} "
            f"in it; set {variable} to the key."
        )
    return Key(secret)


def _from_keyring(provider: str) -> str:
    import keyring
    from keyring.errors import KeyringError

    try:
        return keyring.get_password(KEYRING_SERVICE, provider) or ""
    except (KeyringError, OSError):
        # A machine without a keyring has no key there.
        return ""
