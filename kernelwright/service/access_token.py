"""The token that a server asks for."""

from kernelwright.errors import InputError

_SHORTEST = 16


def check_token(token: str) -> None:
    """Check that a token is no guess, and no word that replies hold anyway.

    Raises:
        InputError: it is too short.
    """
    if len(token) < _SHORTEST:
        raise InputError(
            f"expected a token of at least {_SHORTEST} characters, found {len(token)}; make "
            "one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
