"""What a compiler, a static rule or the sanitizer found, as records."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from kernelwright.errors import KernelwrightError


class Record(BaseModel):
    """A frozen value that validates where data enters and refuses unknown fields."""

    # JSON has no NaN and no infinities: as strings they come back as they were.
    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="strings"
    )


class Severity(StrEnum):
    """How much a diagnostic matters."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Diagnostic(Record):
    """One message about one place in a kernel's own text.

    `file` is `source` (the body), `header`, or the name of a plain `.metal` file; `line` and
    `column` count from 1 in that text, 0 where no place is known.
    """

    message: str
    file: str = "source"
    line: int = 0
    column: int = 0
    severity: Severity = Severity.ERROR
    rule: str = "compiler"
    """Who says so: `compiler`, or the name of a static rule."""
    source_line: str = ""

    def __str__(self) -> str:
        """Render as Apple's compiler does: place, message, the line, a caret."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else ""
        head = f"{place}{self.severity}: {self.message}"
        if not self.source_line:
            return head
        indent = "".join("\t" if c == "\t" else " " for c in self.source_line[: self.column - 1])
        return f"{head}\n{self.source_line}\n{indent}^"


class CompileError(KernelwrightError):
    """A kernel does not compile; `diagnostics` says where and why."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("\n".join(map(str, diagnostics)) or "the kernel does not compile.")
        self.diagnostics = diagnostics


class ReportKind(StrEnum):
    """What the sanitizer can see."""

    DEVICE_OUT_OF_BOUNDS = "device out of bounds"
    THREADGROUP_OUT_OF_BOUNDS = "threadgroup out of bounds"
    THREAD_OUT_OF_BOUNDS = "thread array out of bounds"
    UNINITIALISED_THREADGROUP_READ = "uninitialised threadgroup read"
    UNINITIALISED_OUTPUT_READ = "uninitialised output read"
    THREADGROUP_RACE = "threadgroup race"
    DEVICE_RACE = "device race"
    DIVERGENT_BARRIER = "divergent barrier"
    DIVERGENT_SIMD_OPERATION = "divergent simd operation"
    MISALIGNED_ACCESS = "misaligned access"
    WRITE_TO_INPUT = "write to input"
    UNWRITTEN_OUTPUT = "unwritten output"
    DIVISION_BY_ZERO = "integer division by zero"
    SHIFT_OUT_OF_RANGE = "shift out of range"
    UNINITIALISED_VARIABLE_READ = "uninitialised variable read"
    NULL_POINTER = "null pointer"
    MISSING_RETURN = "missing return"


class SanitizerReport(Record):
    """One thing a GPU would hide, with where and who.

    `offset` counts bytes from the start of the buffer or threadgroup variable `variable`;
    `thread` is the thread's position in the grid; `count` the times it happened.
    """

    kind: ReportKind
    message: str
    file: str = "source"
    line: int = 0
    column: int = 0
    variable: str = ""
    offset: int | None = None
    thread: tuple[int, int, int] | None = None
    threadgroup: tuple[int, int, int] | None = None
    other_thread: tuple[int, int, int] | None = None
    """The second thread of a race."""
    other_line: int = 0
    count: int = 1

    @property
    def is_stray_read(self) -> bool:
        """True for reads outside of a buffer, which harm nothing but what hangs on them."""
        return self.kind is ReportKind.DEVICE_OUT_OF_BOUNDS and " reads " in self.message

    def __str__(self) -> str:
        """Render in one line."""
        return f"{self.file}:{self.line}: {self.kind}: {self.message}"


class LaunchError(KernelwrightError):
    """A kernel compiles and cannot be launched as asked, or did not end in time."""
