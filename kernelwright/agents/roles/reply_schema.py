"""What a model writes: records that any provider's schema can hold, and programs from them."""

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelwright.agents.roles.task_signature import Interface, with_names
from kernelwright.errors import InputError
from kernelwright.ir.dtype import Dtype
from kernelwright.metal.extent import evaluate
from kernelwright.metal.kernel import Extent, Kernel, Program, Tensor, Tunable

_FLAGS = {"true": True, "false": False}


class Draft(BaseModel):
    """A record without optional fields: a reply that was cut off never passes for a whole one."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TemplateDraft(Draft):
    """A template argument: a dtype, true, false, an integer or launch arithmetic."""

    name: str
    value: int | str


class ArrayDraft(Draft):
    """An array between two kernels."""

    name: str
    dtype: str
    shape: list[int | str]


class TunableDraft(Draft):
    """An integer left open to the tuner, with the values to try."""

    name: str
    choices: list[int]
    value: int


class KernelDraft(Draft):
    """One kernel: the body MLX wraps, what it needs before it, and its launch in threads."""

    name: str
    inputs: list[str]
    outputs: list[str]
    header: str
    source: str
    template: list[TemplateDraft]
    grid: list[int | str]
    threadgroup: list[int | str]


class ProgramDraft(Draft):
    """A program: its idea in a sentence, the dimensions it serves at any size, its kernels."""

    idea: str
    any_size: list[str]
    arrays: list[ArrayDraft]
    tunables: list[TunableDraft]
    kernels: list[KernelDraft]

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
            raise InputError(f"{place}: {detail['msg']}") from e
        return program

    def _program(self, interface: Interface) -> Program:
        known = {d.name for d in interface.dimensions}
        if unknown := sorted(set(self.any_size) - known):
            raise InputError(
                f"any_size names {', '.join(unknown)}; the task's dimensions are "
                f"{', '.join(sorted(known)) or 'all fixed'}."
            )
        # What nobody can try at another size is served at this one, whatever the claim.
        is_open = {d.name for d in interface.dimensions if d.is_open}
        generic = frozenset(self.any_size) & is_open
        return Program(
            inputs=interface.inputs(generic),
            outputs=interface.outputs(generic),
            temporaries=tuple(
                Tensor(
                    name=a.name,
                    dtype=Dtype.parse(a.dtype),
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
            template={t.name: _template_value(t.value, interface, generic) for t in draft.template},
            grid=_three("grid", draft.grid, interface, generic),
            threadgroup=_three("threadgroup", draft.threadgroup, interface, generic),
        )


class Correction(Draft):
    """The whole corrected program, and what was wrong in a sentence."""

    cause: str
    program: ProgramDraft


class RegionDraft(Draft):
    """Nodes to fuse, by number, how to write the kernel, and what fusing saves."""

    nodes: list[int]
    strategy: str
    benefit: str


class LeftDraft(Draft):
    """An op that stays with MLX, and why."""

    op: str
    reason: str


class Cut(Draft):
    """Disjoint regions to fuse, and what is left to MLX."""

    regions: list[RegionDraft]
    left: list[LeftDraft]


def _three(
    what: str, extents: list[int | str], interface: Interface, generic: frozenset[str]
) -> tuple[Extent, Extent, Extent]:
    if len(extents) != 3:
        raise InputError(f"{what} has three sizes in threads, found {len(extents)}")
    x, y, z = (interface.fixed(extent, generic) for extent in extents)
    return x, y, z


def _template_value(
    value: int | str, interface: Interface, generic: frozenset[str]
) -> Dtype | bool | int | str:
    if isinstance(value, str):
        if value.lower() in _FLAGS:
            return _FLAGS[value.lower()]
        if value in {d.value for d in Dtype} | {d.short for d in Dtype}:
            return Dtype.parse(value)
    return interface.fixed(value, generic)


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
        any_size=list(dict.fromkeys(names.values())),
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
