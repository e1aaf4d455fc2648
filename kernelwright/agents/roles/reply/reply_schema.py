"""What a model writes: records that any provider's schema can hold, and programs from them."""

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from kernelwright.agents.roles.reply.task_signature import Interface, with_names
from kernelwright.agents.roles.reply.type_name import METAL_NAMES, find_dtype, parse_dtype
from kernelwright.errors import InputError
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.extent import FUNCTIONS, evaluate, symbols_in
from kernelwright.metal.kernel import Extent, Kernel, Program, Tensor, Tunable
from kernelwright.validation import reason_of

_FLAGS = {"true": True, "false": False}


class Draft(BaseModel):
    """A record whose last field is required: a reply that was cut off does not pass for it.

    A field with a default may be left out, or null, which counts as left out.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {k: v for k, v in data.items() if v is not None or k not in optional}


class TemplateDraft(Draft):
    """A compile-time constant: a type, a flag or an integer."""

    name: str
    """What the kernel's text calls it."""
    value: int | str
    """A type (`float`, `half`, `bfloat`, `int`, `uint`, `long`, `ulong`, `short`, `ushort`, `char`,
    `uchar`, `bool`), `true` or `false`, an integer, or arithmetic over dimensions and tunables."""


class ArrayDraft(Draft):
    """An array between two kernels."""

    name: str
    """An identifier."""
    dtype: str
    """Such as `float`, `half`, `bfloat`, `int`, `uint`, `bool`."""
    shape: list[int | str]
    """Integers, or arithmetic over dimensions and tunables."""


class TunableDraft(Draft):
    """An integer left open to the tuner, with the values to try."""

    name: str
    """Usable in sizes, as a dimension's name."""
    choices: list[int]
    """What is worth trying, in increasing order."""
    value: int
    """The choice to begin with."""


class KernelDraft(Draft):
    """One kernel: the body MLX wraps, what it needs before it, and its launch in threads."""

    name: str
    """An identifier."""
    inputs: list[str]
    """Names of inputs of the task, or of `arrays`."""
    outputs: list[str]
    """Names of outputs of the task, or of `arrays`."""
    header: str = ""
    """Functions before the kernel; may be empty."""
    source: str
    """The kernel's body without its signature and braces."""
    template: list[TemplateDraft] = []
    """May be empty."""
    grid: list[int | str]
    """Three sizes in threads, not groups."""
    threadgroup: list[int | str]
    """Three sizes in threads."""


class ProgramDraft(Draft):
    """A program: its idea in a sentence, the dimensions it serves at any size, its kernels."""

    idea: str
    """What makes it different, in a sentence."""
    any_size: list[str] = []
    """Names of dimensions that it serves at any size; empty for this shape only."""
    arrays: list[ArrayDraft] = []
    """Arrays between its kernels; usually none."""
    tunables: list[TunableDraft] = []
    """Integers left open; may be empty."""
    kernels: list[KernelDraft]
    """In launch order."""

    def program(self, interface: Interface) -> Program:
        """Return the program for a task.

        Raises:
            InputError: the draft is not a program for this task; says why.
        """
        try:
            program = self._program(interface)
            _check_arithmetic(program)
        except ValidationError as e:
            detail = e.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, detail["loc"])) or "the program"
            # Our own words say what was expected by themselves.
            expected = "" if detail["type"] == "value_error" else "expected it to be "
            raise InputError(f"{place}: {expected}{reason_of(detail)}") from e
        return program

    def unserved_sizes(self, interface: Interface) -> str:
        """Say which sizes it claims to serve and is not judged at; empty where there are none.

        A dimension at whose other sizes the task cannot be tried is served at its own alone.
        """
        claimed = [d for d in interface.dimensions if d.name in self.any_size and not d.is_open]
        if not claimed:
            return ""
        sizes = " and ".join(f"{d.name} = {d.size}" for d in claimed)
        return f"It is judged at {sizes} alone: the task cannot be tried at another size of it."

    def _program(self, interface: Interface) -> Program:
        known = {d.name for d in interface.dimensions}
        _check_tunables([t.name for t in self.tunables], known)
        if unknown := sorted(set(self.any_size) - known):
            raise InputError(
                f"any_size names {', '.join(unknown)}; the task's dimensions are "
                f"{', '.join(sorted(known)) or 'all fixed'}."
            )
        # `unserved_sizes` says what becomes of other claims.
        is_open = {d.name for d in interface.dimensions if d.is_open}
        generic = frozenset(self.any_size) & is_open
        return Program(
            inputs=interface.inputs(generic),
            outputs=interface.outputs(generic),
            temporaries=tuple(
                Tensor(
                    name=a.name,
                    dtype=parse_dtype(a.dtype),
                    shape=tuple(interface.fixed(e, generic) for e in a.shape),
                )
                for a in self.arrays
            ),
            kernels=tuple(self._kernel(k, interface, generic) for k in self.kernels),
            tunables=tuple(
                Tunable(name=t.name, choices=tuple(t.choices), value=t.value) for t in self.tunables
            ),
        )

    def _kernel(self, draft: KernelDraft, interface: Interface, generic: frozenset[str]) -> Kernel:
        return Kernel(
            name=draft.name,
            inputs=tuple(draft.inputs),
            outputs=tuple(draft.outputs),
            header=draft.header,
            source=draft.source,
            template={t.name: self._template_value(t, interface, generic) for t in draft.template},
            grid=_three("grid", draft.grid, interface, generic),
            threadgroup=_three("threadgroup", draft.threadgroup, interface, generic),
        )

    def _template_value(
        self, draft: TemplateDraft, interface: Interface, generic: frozenset[str]
    ) -> Dtype | bool | int | str:
        value = draft.value
        if isinstance(value, int):
            return value
        sizes = {d.name for d in interface.dimensions} | {t.name for t in self.tunables}
        if value.lower() in _FLAGS:
            return _FLAGS[value.lower()]
        if value not in sizes and (dtype := find_dtype(value)) is not None:
            return dtype
        if unknown := sorted(symbols_in(value) - sizes):
            raise InputError(
                f"template {draft.name}: expected a type ({', '.join(METAL_NAMES)}), true, false, "
                f"an integer or arithmetic over {', '.join(sorted(sizes)) or 'integers'}; found "
                f"{', '.join(unknown)} in {value!r}."
            )
        return interface.fixed(value, generic)


def _check_tunables(names: list[str], dimensions: set[str]) -> None:
    """Refuse names that launch arithmetic would take for something else."""
    for place, name in enumerate(names):
        taken_by = (
            "a dimension of the task"
            if name in dimensions
            else "a function of launch arithmetic"
            if name in FUNCTIONS
            else "another tunable"
            if name in names[:place]
            else ""
        )
        if taken_by:
            raise InputError(f"tunable {name} has the name of {taken_by}: give it another.")


class Correction(Draft):
    """The whole corrected program, and what was wrong in a sentence."""

    cause: str
    """What was wrong, in a sentence."""
    program: ProgramDraft


class RegionDraft(Draft):
    """Nodes to fuse, by number, how to write the kernel, and what fusing saves."""

    nodes: list[int]
    """Numbers of the list's nodes."""
    strategy: str
    """How to write the kernel, in a sentence."""
    benefit: str
    """What fusing saves, in a sentence."""


class LeftDraft(Draft):
    """An op that stays with MLX, and why."""

    op: str
    """The op's name, as in the list."""
    reason: str
    """Why it stays with MLX, in a sentence."""


class Cut(Draft):
    """Disjoint regions to fuse, and what is left to MLX."""

    regions: list[RegionDraft]
    """Disjoint; none where nothing is worth fusing."""
    left: list[LeftDraft]
    """What no region covers."""


def _three(
    what: str, extents: list[int | str], interface: Interface, generic: frozenset[str]
) -> tuple[Extent, Extent, Extent]:
    if len(extents) != 3:
        raise InputError(f"{what} has three sizes in threads, found {len(extents)}")
    x, y, z = (interface.fixed(extent, generic) for extent in extents)
    return x, y, z


def _check_arithmetic(program: Program) -> None:
    """Evaluate every extent once, so that bad arithmetic is found before a device sees it."""
    symbols = dict.fromkeys(program.symbols, 64)
    for kernel in program.kernels:
        for extent in (*kernel.grid, *kernel.threadgroup):
            evaluate(extent, symbols)
        for value in kernel.template.values():
            if isinstance(value, str) and not isinstance(value, Dtype):
                evaluate(value, symbols)


def drafted(program: Program, idea: str, interface: Interface) -> ProgramDraft:
    """Return a program as a model would have written it: what prompts show of earlier ones."""
    names = interface.renamed(program)

    def told(extents: tuple[Extent, ...]) -> list[Extent]:
        return [with_names(extent, names) for extent in extents]

    return ProgramDraft(
        idea=idea,
        any_size=list(
            dict.fromkeys(n for text in names.values() for n in sorted(symbols_in(text)))
        ),
        arrays=[
            ArrayDraft(name=t.name, dtype=t.dtype.value, shape=told(t.shape))
            for t in program.temporaries
        ],
        tunables=[
            TunableDraft(name=t.name, choices=list(t.choices), value=t.value)
            for t in program.tunables
        ],
        kernels=[
            KernelDraft(
                name=k.name,
                inputs=list(k.inputs),
                outputs=list(k.outputs),
                header=k.header,
                source=k.source,
                template=[
                    TemplateDraft(name=name, value=with_names(_plain(value), names))
                    for name, value in k.template.items()
                ],
                grid=told(k.grid),
                threadgroup=told(k.threadgroup),
            )
            for k in program.kernels
        ],
    )


def _plain(value: Dtype | bool | int | str) -> int | str:
    if isinstance(value, Dtype):
        return value.value
    return str(value).lower() if isinstance(value, bool) else value
