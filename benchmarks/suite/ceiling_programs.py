"""Plain programs whose times are a chip's ceilings: they move, move again, wait, or compute."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Program, Tensor

_GROUP = 256
_PER_THREAD = 16
"""Of the values that a thread reads at once, where it only adds up."""
_FEW = 32
"""Elements that take no time to read; MLX places fewer than 8 in `constant`."""
_FUNCTIONS = {
    "exp": "metal::fast::exp(-v)",
    "log": "metal::fast::log(v) + 2.0f",
    "sin": "metal::fast::sin(v) + 1.0f",
    "rsqrt": "metal::rsqrt(v) + 0.5f",
}
"""Each keeps its argument where it is neither infinite nor nothing."""
FUNCTION_TURNS = 36


@dataclass(frozen=True)
class CeilingProgram:
    """A program of one input and one output of float32."""

    program: Program
    elements_in: int
    elements_out: int

    @property
    def nbytes(self) -> int:
        """What it reads and writes at least."""
        return 4 * (self.elements_in + self.elements_out)


def moving(elements: int) -> Iterator[CeilingProgram]:
    """Yield programs that move so many elements once: a copy, a fill, a sum, and mixtures."""
    yield copying(elements // 2)
    yield _mapped("fill", _FEW, elements, "x4[0]")
    threads = elements // (4 * _PER_THREAD)
    kernel = _kernel("sum", ("x",), "y", threads, _sum("y", threads))
    yield _program((kernel,), elements, 4 * threads)
    for reads in (3, 7):
        made = elements // (reads + 1) // 4 * 4
        terms = " + ".join(f"x4[{n * made // 4} + i]" for n in range(reads))
        yield _mapped(f"sum_of_{reads}", reads * made, made, terms)


def copying(elements: int) -> CeilingProgram:
    """Return the copy of an array."""
    return _mapped("copy", elements, elements, "x4[i]")


def reading_again(elements: int) -> Iterator[CeilingProgram]:
    """Yield programs that add up an array in one launch, and map all of it in the next."""
    threads, fours = elements // (4 * _PER_THREAD), elements // 4
    for place in ("i", f"{fours - 1} - i"):
        mapped = f"y4[{place}] = x4[{place}] + sums4[i & 7u];"
        kernels = (
            _kernel("sum", ("x",), "sums", threads, _sum("sums", threads)),
            _kernel("map", ("x", "sums"), "y", fours, mapped),
        )
        yield _program(kernels, elements, elements, (_tensor("sums", 4 * threads),))


def waiting(launches: int) -> CeilingProgram:
    """Return so many launches that do next to nothing, each after the one before."""
    names = ["x", *(f"t{n}" for n in range(launches - 1)), "y"]
    kernels = tuple(
        _kernel(f"wait_{n}", (a,), b, 32, f"if (i == 0) {b}4[0] = {a}4[0] + 1.0f;")
        for n, (a, b) in enumerate(pairwise(names))
    )
    return _program(kernels, _FEW, _FEW, tuple(_tensor(name, _FEW) for name in names[1:-1]))


def computing(threads: int) -> Iterator[CeilingProgram]:
    """Yield programs whose threads apply a function to four values many times."""
    for name, text in _FUNCTIONS.items():
        lines = "".join(f"{{ float v = w.{c}; w.{c} = {text}; }}\n" for c in "xyzw")
        loop = f"for (uint k = 0; k < {FUNCTION_TURNS}; ++k) {{\n{lines}}}\n"
        source = f"float4 w = x4[i];\n{loop}y4[i] = w;"
        kernel = _kernel(name, ("x",), "y", threads, source)
        yield _program((kernel,), 4 * threads, 4 * threads)


def _mapped(name: str, read: int, made: int, value: str) -> CeilingProgram:
    kernel = _kernel(name, ("x",), "y", made // 4, f"y4[i] = {value};")
    return _program((kernel,), read, made)


def _sum(name: str, threads: int) -> str:
    loop = f"for (uint k = 0; k < {_PER_THREAD}; ++k) total += x4[k * {threads} + i];\n"
    return f"float4 total = 0.0f;\n{loop}{name}4[i] = total;"


def _kernel(name: str, inputs: tuple[str, ...], output: str, threads: int, text: str) -> Kernel:
    """Return a kernel whose text names its arrays by fours."""
    read = "".join(f"const device float4* {n}4 = (const device float4*){n};\n" for n in inputs)
    made = f"device float4* {output}4 = (device float4*){output};\n"
    return Kernel(
        name=name,
        inputs=inputs,
        outputs=(output,),
        source=f"uint i = thread_position_in_grid.x;\n{read}{made}{text}",
        grid=(threads, 1, 1),
        threadgroup=(min(threads, _GROUP), 1, 1),
    )


def _program(
    kernels: tuple[Kernel, ...], read: int, made: int, temporaries: tuple[Tensor, ...] = ()
) -> CeilingProgram:
    program = Program(
        inputs=(_tensor("x", read),),
        outputs=(_tensor("y", made),),
        temporaries=temporaries,
        kernels=kernels,
    )
    return CeilingProgram(program, read, made)


def _tensor(name: str, elements: int) -> Tensor:
    return Tensor(name=name, dtype=Dtype.FLOAT32, shape=(elements,))
