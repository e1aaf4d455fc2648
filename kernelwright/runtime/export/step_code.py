"""Finds the functions of `carried_steps` that printed code calls."""

import re
from functools import cache
from pathlib import Path

from kernelwright.runtime.export import carried_steps

_CALL = re.compile(r"(?<![\w.])_[a-z_]+(?=\()")


def steps_source(code: str) -> str:
    """Return the definitions of the carried functions that `code` calls, or nothing."""
    known = _definitions()
    wanted = [name for name in _CALL.findall(code) if name in known]
    needed: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in needed:
            needed.add(name)
            wanted += [inner for inner in _CALL.findall(known[name]) if inner in known]
    return "".join(f"\n\n{text}" for name, text in known.items() if name in needed)


@cache
def _definitions() -> dict[str, str]:
    text = Path(str(carried_steps.__file__)).read_text(encoding="utf-8")
    parts = text.split("\n\n\n")
    return {p[4 : p.index("(")]: f"{p.strip()}\n" for p in parts if p.startswith("def ")}
