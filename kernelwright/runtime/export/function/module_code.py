"""Prints the module of a function: the user's code, the kernels, and what chooses between them."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import ValueId
from kernelwright.ir.trace.interpret import constant_array
from kernelwright.metal.kernel import Program
from kernelwright.printable import printable
from kernelwright.runtime.export.function.arguments_code import target_source
from kernelwright.runtime.export.function.carried_names import is_library
from kernelwright.runtime.export.function.carried_source import CarriedSource
from kernelwright.runtime.export.function.carried_text import (
    dispatch_imports,
    dispatch_text,
)
from kernelwright.runtime.export.function.definition_arrays import definition_arrays
from kernelwright.runtime.export.function.literal import array_literal
from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.export.function.result_nest import nest_source
from kernelwright.runtime.export.function.variant import (
    Variant,
    large_constants,
    path_source,
    with_launches,
)
from kernelwright.runtime.export.selection import WARNING
from kernelwright.runtime.export.step_code import steps_source
from kernelwright.runtime.export.wrapper_code import (
    arithmetic_source,
    kernel_source,
    launch_source,
)
from kernelwright.store import CandidateDetail

_LITERAL_ELEMENTS = 32
_BEFORE_DEFINITIONS = "import functools\n"


@dataclass
class FunctionModule:
    """A function to be printed as a module."""

    source: CarriedSource
    signature: str
    variants: Sequence[Variant] = ()
    future_annotations: bool = False
    file: str = ""
    """The module's name where it is not the function's: that of a method's module."""
    called: str = ""
    """How people call the function where it is written, such as `Ops.mish`; its name if empty."""
    data: dict[str, mx.array] = field(default_factory=dict)
    """Arrays that are too long for code, by name; filled while printing."""

    @property
    def name(self) -> str:
        """The module's name."""
        return self.file or self.source.name

    @property
    def title(self) -> str:
        """The call, as people write it: `block.forward(x, n=2)`."""
        return f"{self.called or target_source(self.source)}{self.signature}"

    @property
    def details(self) -> tuple[CandidateDetail, ...]:
        """The kernels, each program once."""
        found = {
            d.candidate.program_id: d for variant in self.variants for d in variant.kernels.values()
        }
        return tuple(found.values())

    def text(self) -> str:
        """Return the module's text."""
        definitions = self._definitions()
        kernels = self._kernels()
        parts = [
            self._docstring(),
            "from __future__ import annotations\n\n" if self.future_annotations else "",
            self._imports(),
            self._loading(),
            definitions,
            *kernels,
            "\n\n" + dispatch_text(),
            "\n\n" + self._installation(),
        ]
        return "".join(part for part in parts if part)

    def _docstring(self) -> str:
        served = "\n".join(f"    {line}" for line in self._served())
        verified = all(
            d.evaluations and d.evaluations[0].evaluation.is_correct for d in self.details
        )
        warning = "" if verified else f"\n\n{WARNING}"
        return (
            f'"""{self.title}, with Metal kernels where they serve a call.\n\n'
            f"{served}\n\n"
            "Every other call, and every machine without Metal, runs the function as it stands\n"
            "here. Derivatives and `mx.vmap` are those of the function. Found by Kernelwright;\n"
            f'VERIFICATION.md says what was checked.{warning}\n"""\n\n'
        ).replace("\\", "\\\\")

    def _served(self) -> list[str]:
        lines = []
        for variant in self.variants:
            types = ", ".join(map(str, variant.argument_types)) or "no arrays"
            text = f"{types}: {len(variant.kernels)} of {variant.regions} regions"
            text = f"{text}, judged on {variant.chip}"
            lines += textwrap.wrap(text, 92)
        return lines or ["No call has a kernel yet."]

    def _imports(self) -> str:
        own = dispatch_imports()
        rest = [line for line in dict.fromkeys(self.source.imports) if line not in own]
        loading = ["import pathlib"] if self._is_loading else []
        return "\n".join([*own, *loading, *rest]) + "\n"

    @property
    def _is_loading(self) -> bool:
        return bool(self.data)

    def _definitions(self) -> str:
        lines = []
        for name, array in self.source.arrays.items():
            lines.append(f"{name} = {self._printed(name, array)}")
        for name, value in self._restored():
            call = _Call((), [({name: value}, name)])
            self.data |= {path: call.array_at(i) for i, path in enumerate(call.paths)}
        self.data |= self.source.data
        self.data |= definition_arrays(self.source.names, self._printed).data
        text = "\n".join(lines)
        return (
            "\n\n\n".join(
                part for part in ("\n" + text if text else "", *self.source.blocks) if part
            )
            + "\n"
        )

    def _printed(self, name: str, array: mx.array) -> str:
        """Print what makes an array, which becomes data where it is long."""
        if array.size <= _LITERAL_ELEMENTS:
            return array_literal(array)
        self.data[name] = array
        return f'_DATA["{name}"]'

    def _restored(self) -> list[tuple[str, object]]:
        """List the objects that a statement makes again, with other arrays than the original's."""
        return [(n, v) for n, v in self.source.objects.items() if n not in self.source.stated]

    def _loading(self) -> str:
        if not self._is_loading:
            return "\n"
        return (
            f'\n_DATA = mx.load(str(pathlib.Path(__file__).with_name("{self.name}.safetensors")))\n'
        )

    def _kernels(self) -> list[str]:
        parts: list[str] = []
        functions: dict[str, str] = {}
        programs: list[Program] = []
        for number, detail in enumerate(self.details, 1):
            name = f"_kernel_{number}"
            functions[detail.candidate.program_id] = name
            programs.append(detail.program)
            parts.append(
                "\n" + kernel_source(detail.program, detail.candidate.program_id, f"_{number}")
            )
            summary = textwrap.shorten(f"{printable(detail.candidate.idea).rstrip('.')}.", 88)
            summary = summary.replace("\\", "/").replace('"""', "'''")
            parts.append("\n\n" + launch_source(detail.program, name, summary, f"_{number}"))
        parts.append(arithmetic_source(programs))
        for number, variant in enumerate(self.variants, 1):
            graph = with_launches(variant, functions)
            data: dict[ValueId, str] = {}
            constants = dict(graph.constants)
            for value in large_constants(graph):
                name = f"_constant_{len(self.data)}"
                self.data[name] = constant_array(constants[value])
                data[value] = f'_DATA["{name}"]'
            types = ", ".join(map(str, variant.traced.graph.output_types))
            parts.append(
                "\n\n" + path_source(graph, f"_variant_{number}", f"Return {types}.", data)
            )
        parts.append(steps_source("".join(parts)))
        return parts

    def _installation(self) -> str:
        lines = []
        for name, value in self._restored():
            if _Call((), [({name: value}, name)]).slots:
                lines.append(f'_restore(_Call((), [(globals(), "{name}")]), _DATA)')
        lines += definition_arrays(self.source.names, self._printed).lines
        captured = ", ".join(f'(globals(), "{name}")' for name in self.captured)
        lines.append(f"_CAPTURED = [{captured}]")
        lines.append(self._names())
        if any(v.traced.fixed for v in self.variants):
            own = f"(({self.source.name},), {{}})" if self.source.attributes else "()"
            lines.append(f"_kept = _Call({own}, _CAPTURED, _NAMES).array_at")
        keys = list(dict.fromkeys(v.traced.key for v in self.variants))
        lines.append(f"_PASSED = [{', '.join(self._passed())}]")
        lines.append("_VARIANTS = {")
        for key in keys:
            lines.append(f"    {key!r}: [")
            for number, variant in enumerate(self.variants, 1):
                if variant.traced.key == key:
                    lines.append(f"        {self._variant(number, variant)},")
            lines.append("    ],")
        lines.append("}")
        lines.append(self._installed())
        return "\n".join(lines) + "\n"

    def _names(self) -> str:
        """Print the names that decide whether a call is one of those that kernels serve."""
        found = [v.traced.names for v in self.variants]
        if not found or any(names is None for names in found):
            return "_NAMES = None"
        names = sorted(frozenset().union(*(n for n in found if n is not None)))
        text = textwrap.fill(" ".join(names), 88, break_long_words=False, break_on_hyphens=False)
        begin = "# Attributes and variables that the function reads; it depends on no other."
        return f'{begin}\n_NAMES = frozenset(\n    """\n{text}\n""".split()\n)'

    def _passed(self) -> list[str]:
        """List the object whose method it is, and the classes of arguments."""
        kinds = (n for n, v in self.source.names.items() if isinstance(v, type))
        users = [n for n in kinds if not is_library(self.source.names[n].__module__)]
        return [*users, *([self.source.name] if self.source.attributes else [])]

    @property
    def captured(self) -> tuple[str, ...]:
        """Names of what the function reads besides its arguments."""
        return tuple(n for n in self.source.captured if n != self.source.name)

    def _variant(self, number: int, variant: Variant) -> str:
        traced = variant.traced
        options = [f"chip={variant.chip!r}"]
        if traced.slots:
            options.append(f"slots={traced.slots!r}")
        if traced.fixed:
            pairs = [f"({i}, _kept({j}))" for i, j in traced.fixed]
            options.append(f"fixed=[{', '.join(pairs)}]")
        if traced.changed:
            options += [f"changed={traced.changed!r}", f"shown={traced.shown!r}"]
        nest = nest_source(traced.result, self._name_of)
        return f"_Variant(_variant_{number}, {nest}, {', '.join(options)})"

    def _name_of(self, kind: type) -> str:
        """Return what a class is called in the module, whose own class may be another object."""
        names = self.source.names
        found = [n for n, v in names.items() if isinstance(v, type) and _is_the_class(v, kind)]
        if not found:
            raise UnsupportedError(
                f"{self.name} returns an object of {kind.__name__}, which no line of it names; "
                "return a tuple or a dict."
            )
        return min(found, key=lambda n: (n.count("."), n))

    def _installed(self) -> str:
        name = self.source.name
        if not self.source.attributes:
            return f"{name} = _with_kernels({name}, _VARIANTS, _CAPTURED, _NAMES, _PASSED)"
        (method,) = self.source.attributes
        place = f"type({name}).{method}"
        made = f"_with_kernels({place}, _VARIANTS, _CAPTURED, _NAMES, _PASSED)"
        bound = f"\n{self.source.public} = {name}.{method}" if self.source.public else ""
        if self.has_own_class:
            is_inherited = method not in vars(type(self.source.objects[name]))
            # Kernels note what the class holds, which another entry would change.
            first = f"# Its own, before it is noted.\n{place} = {place}\n" if is_inherited else ""
            return f"{first}{place} = {made}{bound}"
        # The class is a library's, which stays as it is.
        kind = f"type({name})"
        return f'{name}.__class__ = type({kind}.__name__, ({kind},), {{"{method}": {made}}}){bound}'

    @property
    def has_own_class(self) -> bool:
        """Say whether the class of the object is defined in the module."""
        kind = type(self.source.objects[self.source.name])
        return any(
            block.lstrip("@").startswith(f"class {kind.__name__}")
            or f"\nclass {kind.__name__}" in block
            for block in self.source.blocks
        )


def _is_the_class(one: type, other: type) -> bool:
    return one is other or one.__qualname__ == other.__qualname__
