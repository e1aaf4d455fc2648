"""Where the ways out of a block meet again."""

from functools import lru_cache

from kernelwright.evaluator.attacks.mutate.symbolic.listing import Function

_END = ""


@lru_cache(maxsize=4096)
def join_of(function: Function, label: str) -> str:
    """Return the first block that every way from a block comes to; empty for the kernel's end."""
    return _joins(function)[label]


@lru_cache(maxsize=8)
def _joins(function: Function) -> dict[str, str]:
    """Return each block's immediate postdominator."""
    after = {label: function.successors(label) or (_END,) for label in function.blocks}
    every = {*after, _END}
    behind = {label: set(every) for label in after} | {_END: {_END}}
    changed = True
    while changed:
        changed = False
        for label in reversed(after):
            common = set.intersection(*(behind[way] for way in after[label])) | {label}
            if common != behind[label]:
                behind[label], changed = common, True
    # The nearest of them has all others behind itself.
    return {
        label: max(behind[label] - {label}, key=lambda other: len(behind[other])) for label in after
    }
