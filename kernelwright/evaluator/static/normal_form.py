"""A program's normal form: the text that is hashed, named and launched."""

import hashlib
import json

from kernelwright.evaluator.static.preprocess import Expanded, preprocess
from kernelwright.metal.kernel import Kernel, Program

_NAME_DIGITS = 16


Texts = tuple[Expanded, ...]
"""The header and source of each kernel of a program."""


def normalise(program: Program) -> Program:
    """Blank out comments, expand macros and name each kernel after its content.

    MLX derives a kernel's signature from substrings of its source, so a comment could add
    parameters; and it once ran the first of two kernels that shared a name. Neither survives, and
    no condition or macro: every build and device compiles the same text.

    Raises:
        Refusal: a text cannot be preprocessed, which the static rules have found before.
    """
    return with_texts(program, plain_texts(program))


def plain_texts(program: Program) -> Texts:
    """Return what is left of each kernel's texts to compile."""
    return tuple(preprocess(kernel.header, kernel.source) for kernel in program.kernels)


def with_texts(program: Program, texts: Texts) -> Program:
    """Put texts in the place of the kernels' own, and name each kernel after its content."""
    pairs = zip(program.kernels, texts, strict=True)
    return program.model_copy(update={"kernels": tuple(_named(k, text) for k, text in pairs)})


def _named(kernel: Kernel, text: Expanded) -> Kernel:
    plain = kernel.model_copy(update={"source": text.source, "header": text.header})
    return plain.model_copy(update={"name": launch_name(plain)})


def launch_name(kernel: Kernel) -> str:
    """Return the kernel's name with a hash of source, header, template and options."""
    content = kernel.model_dump(mode="json", exclude={"name", "grid", "threadgroup"})
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_NAME_DIGITS]
    stem = kernel.name.removesuffix(f"_{digest}")[: 63 - _NAME_DIGITS]
    return f"{stem}_{digest}"
