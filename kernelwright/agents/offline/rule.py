"""Mechanical corrections of Metal text: each mends one class of compiler error."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.msl.token import Token, TokenKind, tokenize

Correct = Callable[[Kernel, Sequence[Diagnostic]], Kernel]
"""Returns the kernel changed, or as it was when there is nothing to do."""


@dataclass(frozen=True)
class Rule:
    """A class of errors by what the compiler says, and its correction."""

    name: str
    says: re.Pattern[str]
    correct: Correct

    def apply(self, kernel: Kernel, diagnostics: Sequence[Diagnostic]) -> Kernel:
        """Return the corrected kernel, the same where no diagnostic is of this class."""
        meant = [d for d in diagnostics if self.says.search(d.message)]
        return self.correct(kernel, meant) if meant else kernel


_INPUT_POINTER = re.compile(
    r"\b(?:const\s+)?(?:device|constant)\s+(?:const\s+)?[\w:]+\s*\*\s*(?:const\s+)?(?P<name>\w+)"
    r"\s*=\s*(?:\((?:const\s+)?(?:device|constant)[^()]*\*\s*\)\s*)?(?P<from>\w+)"
)


def _infer_address_space(kernel: Kernel, found: Sequence[Diagnostic]) -> Kernel:
    def replace(match: re.Match[str]) -> str:
        if match["from"] not in kernel.inputs:
            return match[0]
        return f"auto {match['name']} = {match['from']}"

    return kernel.model_copy(update={"source": _INPUT_POINTER.sub(replace, kernel.source)})


def _add_accumulator(kernel: Kernel, found: Sequence[Diagnostic]) -> Kernel:
    def four(arguments: list[str]) -> list[str]:
        return [*arguments, arguments[0]] if len(arguments) == 3 else arguments

    return _texts(kernel, lambda text: rewrite_calls(text, "simdgroup_multiply_accumulate", four))


_ATTRIBUTE = re.compile(r"[ \t]*\[\[\s*[\w:]+\s*(?:\([^()]*\))?\s*\]\][ \t]*;?")


def _drop_attributes(kernel: Kernel, found: Sequence[Diagnostic]) -> Kernel:
    def drop(text: str, file: str) -> str:
        lines = text.split("\n")
        for diagnostic in found:
            if diagnostic.file == file and 0 < diagnostic.line <= len(lines):
                place = diagnostic.line - 1
                lines[place] = _ATTRIBUTE.sub("", lines[place])
        return "\n".join(lines)

    return kernel.model_copy(
        update={"source": drop(kernel.source, "source"), "header": drop(kernel.header, "header")}
    )


_UNSUFFIXED = re.compile(r"^(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?[lL]?$")


def _use_float(kernel: Kernel, found: Sequence[Diagnostic]) -> Kernel:
    def single(token: Token) -> str:
        if token.kind is TokenKind.IDENTIFIER and token.text == "double":
            return "float"
        is_real = any(c in token.text for c in ".eE")
        if token.kind is TokenKind.NUMBER and is_real and _UNSUFFIXED.match(token.text):
            return f"{token.text.rstrip('lL')}f"
        return token.text

    return _texts(kernel, lambda text: "".join(map(single, tokenize(text))))


_AMBIGUOUS = re.compile(r"call to '(\w+)' is ambiguous")


def _widen_arguments(kernel: Kernel, found: Sequence[Diagnostic]) -> Kernel:
    names = {match[1] for d in found if (match := _AMBIGUOUS.search(d.message))}

    def widen(arguments: list[str]) -> list[str]:
        return [a if a.startswith("float(") else f"float({a})" for a in arguments]

    for name in sorted(names):
        kernel = _texts(kernel, partial(rewrite_calls, name=name, change=widen))
    return kernel


_LAMBDA = re.compile(
    r"^[ \t]*(?:const\s+)?auto\s+(?P<name>\w+)\s*=\s*\[(?P<captures>[^\]]*)\]\s*"
    r"\((?P<parameters>[^()]*)\)\s*(?:->\s*(?P<result>[\w:]+)\s*)?"
    r"\{(?P<body>[^{}]*)\}\s*;[ \t]*\n?",
    re.MULTILINE,
)
_DECLARED = re.compile(r"\b(?:auto|bool|u?int|uint[23]|float\d?|half\d?|ushort|size_t)\s+(\w+)\s*=")


def _hoist_lambdas(kernel: Kernel, found: Sequence[Diagnostic]) -> Kernel:
    hoisted: list[str] = []

    def hoist(match: re.Match[str]) -> str:
        outer = set(_DECLARED.findall(kernel.source[: match.start()])) | {
            *kernel.inputs,
            *kernel.outputs,
        }
        own = set(re.findall(r"(\w+)\s*(?:,|$)", match["parameters"]))
        if (set(re.findall(r"\w+", match["body"])) & outer) - own:
            # A function cannot see the variables that the lambda captured.
            return match[0]
        result = match["result"] or "auto"
        parameters = " ".join(match["parameters"].split())
        hoisted.append(
            f"inline {result} {match['name']}({parameters}) {{ {match['body'].strip()} }}\n"
        )
        return ""

    source = _LAMBDA.sub(hoist, kernel.source)
    return kernel.model_copy(update={"source": source, "header": kernel.header + "".join(hoisted)})


_FOREIGN = {
    **{f"{name}f": f"metal::{name}" for name in ("exp", "log", "sqrt", "tanh", "pow", "sin")},
    **{f"{name}f": f"metal::{name}" for name in ("cos", "fmax", "fmin", "fabs", "rsqrt", "floor")},
    "__expf": "metal::fast::exp",
    "__syncthreads": "threadgroup_barrier",
    "__shared__": "threadgroup",
    "M_PI": "M_PI_F",
    "M_E": "M_E_F",
}
_UNDECLARED = re.compile(
    r"use of undeclared identifier '(\w+)'|unknown type name '(\w+)'|no member named '(\w+)' in"
)


def _use_metal_names(kernel: Kernel, found: Sequence[Diagnostic]) -> Kernel:
    missing = {
        name for d in found if (m := _UNDECLARED.search(d.message)) for name in m.groups() if name
    }

    def rename(text: str) -> str:
        text = re.sub(r"\bstd::", "metal::", text)
        for name in sorted(missing):
            known = _FOREIGN.get(name, f"metal::{name}" if name in _METAL else name)
            text = re.sub(rf"(?<![\w:]){name}\b", known, text)
        return re.sub(
            r"\bthreadgroup_barrier\(\s*\)",
            "threadgroup_barrier(metal::mem_flags::mem_threadgroup)",
            text,
        )

    return _texts(kernel, rename)


_METAL = frozenset(
    {"simd_sum", "simd_max", "simd_min", "simd_shuffle", "simd_shuffle_down", "simd_shuffle_xor"}
    | {"exp", "log", "sqrt", "rsqrt", "tanh", "pow", "max", "min", "abs", "clamp", "select", "fma"}
    | {"isnan", "isinf", "floor", "ceil", "rint", "mem_flags", "numeric_limits", "precise", "fast"}
)
_GLOBAL = re.compile(r"^(?:static\s+)?(?:const(?:expr)?\s+)?(?=[\w:]+\s+\w+\s*(?:\[[^\]]*\])*\s*=)")


def _make_constant(kernel: Kernel, found: Sequence[Diagnostic]) -> Kernel:
    lines = kernel.header.split("\n")
    for diagnostic in found:
        if diagnostic.file == "header" and 0 < diagnostic.line <= len(lines):
            place = diagnostic.line - 1
            lines[place] = _GLOBAL.sub("constant ", lines[place])
    return kernel.model_copy(update={"header": "\n".join(lines)})


RULES: tuple[Rule, ...] = (
    Rule(
        "let the compiler infer the address space of pointers to inputs",
        re.compile(r"address space|const(?:ant)? (?:device|constant) \w+ \*|'const constant"),
        _infer_address_space,
    ),
    Rule(
        "give simdgroup_multiply_accumulate its fourth argument",
        re.compile(r"no matching function for call to 'simdgroup_multiply_accumulate'"),
        _add_accumulator,
    ),
    Rule(
        "drop attributes that stand where none may",
        re.compile(r"attribute cannot be applied|attribute list cannot appear"),
        _drop_attributes,
    ),
    Rule("compute in float: Metal has no double", re.compile(r"\bdouble\b"), _use_float),
    Rule("widen the arguments of an ambiguous call", _AMBIGUOUS, _widen_arguments),
    Rule("turn lambdas into functions", re.compile(r"lambda expression"), _hoist_lambdas),
    Rule("call functions by Metal's names", _UNDECLARED, _use_metal_names),
    Rule(
        "put program-scope variables into constant memory",
        re.compile(r"program scope variable must reside in constant address space"),
        _make_constant,
    ),
)


def _texts(kernel: Kernel, change: Callable[[str], str]) -> Kernel:
    return kernel.model_copy(
        update={"source": change(kernel.source), "header": change(kernel.header)}
    )


def rewrite_calls(text: str, name: str, change: Callable[[list[str]], list[str]]) -> str:
    """Change the arguments of every call of a function, nested calls included."""
    place = 0
    while (match := re.compile(rf"\b{name}\s*\(").search(text, place)) is not None:
        arguments, end = _arguments(text, match.end())
        if arguments is None:
            return text
        replacement = ", ".join(change(arguments))
        text = text[: match.end()] + replacement + text[end:]
        place = match.end()
    return text


def _arguments(text: str, start: int) -> tuple[list[str] | None, int]:
    """Split a call's arguments from behind its parenthesis; None where it is never closed."""
    depth, begin, parts = 0, start, list[str]()
    for place in range(start, len(text)):
        letter = text[place]
        if letter in "([{":
            depth += 1
        elif letter in ")]}" and depth:
            depth -= 1
        elif letter == ")":
            parts.append(text[begin:place].strip())
            return parts, place
        elif letter == "," and not depth:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return None, start
