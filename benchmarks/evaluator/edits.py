"""Edits honest kernels at random and lists what the evaluator still calls correct.

python -m benchmarks.evaluator edits [--seconds 300] [--seed 1]

Mutation testing (R. DeMillo, R. Lipton, F. Sayward 1978), of the evaluator: an edit that changes
one token mostly breaks a kernel. A survivor is either harmless (a guard that exact grids never
need, a value written twice) or something that no case looks at. Somebody has to read them.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from kernelwright.evaluator.attacks.honest import HonestKernel, all_honest
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage
from kernelwright.metal.msl.token import Token, TokenKind, tokenize

_A_SECRET = 100
"""Edits judged under one secret."""
_WHOLE = re.compile(r"(\d+)(u?)$")
_REAL = re.compile(r"(\d[\d.]*(?:e[+-]?\d+)?)([fh]?)$")
_PAIRS = (
    *("+ -", "* /", "+= -=", "< <=", "> >=", "== !=", "&& ||", "max min", "exp exp2", "log log2"),
    *("sin cos", "rsqrt sqrt", "simd_sum simd_max", "float half", "uint uchar", "int char"),
)
_OTHER = {"bfloat16_t": "half"} | {
    word: other for pair in _PAIRS for word, other in permutations(pair.split())
}
"""What stands for what, both ways."""
_KEYWORDS = frozenset(("for", "if", "else", "while", "return", "const", "threadgroup", "metal"))


@dataclass(frozen=True)
class Edit:
    """A source with one token changed, or one statement gone."""

    source: str
    words: str


def main(arguments: Sequence[str] | None = None) -> None:
    """Edit and judge until the time is over; print each survivor, then how many met what end."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evaluator edits", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    random, deadline = np.random.default_rng(chosen.seed), time.monotonic() + chosen.seconds
    kernels, found = all_honest(), Counter[str]()
    while time.monotonic() < deadline:
        config = EvaluatorConfig(run_timeout_s=1.5, through=Stage.DETERMINISM)
        with Evaluator(config=config) as evaluator:
            for _ in range(_A_SECRET):
                if time.monotonic() > deadline:
                    break
                kernel = kernels[random.integers(len(kernels))]
                found[_judge(evaluator, kernel, random)] += 1
    print(", ".join(f"{count} {status}" for status, count in found.most_common()))


def _judge(evaluator: Evaluator, honest: HonestKernel, random: np.random.Generator) -> str:
    program = honest.program
    place = int(random.integers(len(program.kernels)))
    kernel = program.kernels[place]
    edit = edited(kernel.source, random)
    changed = kernel.model_copy(update={"source": edit.source})
    kernels = (*program.kernels[:place], changed, *program.kernels[place + 1 :])
    found = evaluator.evaluate(honest.task, program.model_copy(update={"kernels": kernels}))
    if found.is_correct:
        print(f"{honest.name}: {edit.words}", flush=True)
    return str(found.status)


def edited(source: str, random: np.random.Generator) -> Edit:
    """Return the source with one edit, drawn until one fits."""
    tokens = tokenize(source)
    names = sorted({t.text for t in tokens if _is_name(t)})
    while True:
        place = int(random.integers(len(tokens)))
        old = tokens[place]
        if old.text == ";":
            start = _statement(tokens, place)
            gone = "".join(t.text for t in tokens[start : place + 1]).strip()
            if gone != ";" and "for" not in gone:
                return Edit(_joined(tokens, start, place + 1, ""), f"{gone!r} is gone")
        elif (new := _instead(old, names, random)) != old.text:
            line = source.split("\n")[old.line - 1].strip()
            words = f"{old.text} became {new} in {line!r}"
            return Edit(_joined(tokens, place, place + 1, new), words)


def _joined(tokens: Sequence[Token], start: int, stop: int, between: str) -> str:
    before, after = tokens[:start], tokens[stop:]
    return "".join((*(t.text for t in before), between, *(t.text for t in after)))


def _statement(tokens: Sequence[Token], end: int) -> int:
    """Return where the statement that ends in a semicolon begins."""
    start = end
    while start > 0 and tokens[start - 1].text not in (";", "{", "}"):
        start -= 1
    return start


def _is_name(token: Token) -> bool:
    is_ours = token.kind is TokenKind.IDENTIFIER and token.text not in _OTHER
    return is_ours and token.text not in _KEYWORDS


def _instead(token: Token, names: Sequence[str], random: np.random.Generator) -> str:
    """Return what takes a token's place; the token itself where nothing does."""
    if whole := _WHOLE.match(token.text):
        value = int(whole[1])
        return f"{random.choice([value + 1, max(value - 1, 0), 2 * value, value // 2])}{whole[2]}"
    if real := _REAL.match(token.text):
        return f"{float(real[1]) * float(random.choice([2.0, 1.01, 0.0, -1.0]))!r}{real[2]}"
    if _is_name(token):
        return str(random.choice(names))
    return _OTHER.get(token.text, token.text)
