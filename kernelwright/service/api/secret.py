"""Keeps secrets out of every reply: passwords in URLs, and the keys that this process knows."""

import json
import os
import re
from collections.abc import Iterable, Mapping

HIDDEN = "***"
_ACCOUNT = re.compile(r"(?<=://)[^\s/@\"'\\<>]+@")
"""A user and a password in a URL."""
_VARIABLE = re.compile(r"(API_KEY|TOKEN|SECRET|PASSWORD)$")
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
_SHORTEST = 4


def known_secrets(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the values of variables that are named as keys are, the longest first."""
    found = {v.strip() for name, v in environment.items() if _VARIABLE.search(name.upper())}
    return tuple(sorted((s for s in found if len(s) >= _SHORTEST), key=len, reverse=True))


class Redactor:
    """Hides secrets in JSON that goes out."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(secrets)

    def in_json(self, text: str) -> str:
        """Return the JSON without secrets; only its strings change, so it stays JSON."""
        if "://" in text:
            text = _ACCOUNT.sub(f"{HIDDEN}@", text)
        for secret in self._secrets:
            written = json.dumps(secret)[1:-1]
            plain = json.dumps(secret, ensure_ascii=False)[1:-1]
            for form in {written, plain}:
                if form in text:
                    text = _LITERAL.sub(lambda m, form=form: m[0].replace(form, HIDDEN), text)  # type: ignore[misc]
        return text
