"""Which functions beyond Metal's own a kernel needs in its header."""

import re

from kernelwright.metal.lower.library import FUNCTIONS

_USE = re.compile(r"(?<![\w:.])([a-z]\w*)(?=(?:<[\w<>]+>)?\(|<)")


def header_for(source: str) -> str:
    """Return the definitions of all functions of the library that `source` uses, transitively."""
    wanted: list[str] = []
    _collect(source, wanted)
    return "\n".join(FUNCTIONS[name] for name in wanted)


def _collect(text: str, wanted: list[str]) -> None:
    for name in _USE.findall(text):
        if name in FUNCTIONS and name not in wanted:
            body = FUNCTIONS[name].replace(f"{name}(", "(")
            _collect(body, wanted)
            wanted.append(name)
