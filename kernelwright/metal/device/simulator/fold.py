"""Finds code that a fold of LLVM 22 has spoilt.

https://github.com/llvm/llvm-project/issues/215453: InstCombine puts a masked load that a `select`
takes under the same mask in the place of the `select`, below stores that follow the load. The wide
forms hide their loads from it (wide/opaque.py); what clang makes vectors of by itself is looked at
afterwards.
"""

import re

# VMASKMOVPS, VMASKMOVPD and VPMASKMOV from memory: a VEX prefix of three bytes for the map 0F38 and
# the prefix 66, then 2C, 2D or 8C; Intel SDM volume 2, 2.3.5.
_MASKED_LOAD = re.compile(
    rb"\xc4[\x02\x22\x42\x62\x82\xa2\xc2\xe2]"
    rb"[" + b"".join(re.escape(bytes((b,))) for b in range(1, 256, 4)) + rb"][\x2c\x2d\x8c]"
)
# The vectoriser asks for nothing where the mask is off; the fold for what the `select` takes there.
_FOLDED = re.compile(r"call [^@]*@llvm\.masked\.load\.[^(]*\((?!.*poison\)).*\)")

_STORE = re.compile(r"^  store |@llvm\.masked\.(?:store|scatter)\.|@llvm\.mem(?:cpy|move|set)\.")


def may_be_spoilt(code: bytes) -> bool:
    """Say whether machine code of x86-64 has masked loads at all."""
    return _MASKED_LOAD.search(code) is not None


def is_spoilt(listing: str) -> bool:
    """Say whether the fold may have moved a load below a store in an optimised listing."""
    stored = False
    for line in listing.split("\n"):
        if line.startswith("define "):
            stored = False
        elif stored and _FOLDED.search(line):
            return True
        stored |= _STORE.search(line) is not None
    return False
