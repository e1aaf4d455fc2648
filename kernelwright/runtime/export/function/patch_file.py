"""A patch that gives a module's function its kernels where it stands, for `git apply`."""

import ast
import difflib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright.errors import UnsupportedError
from kernelwright.runtime.definition import _are_alike
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.function.module_file import imported

_ADDED = """\


# Metal kernels for the calls that they serve, while the function above is what they were found
# for; the function itself for all others.
from {module} import with_kernels as _with_kernels  # noqa: E402

{name} = _with_kernels({name})
"""

_WITH_KERNELS = '''


def with_kernels(function: Callable) -> Callable:
    """Give kernels to the function of the patched file while they compute what it does."""
    made = []

    def served() -> Callable | None:
        if not made:
            # What the function reads is defined by its first call, if below it in its file.
            is_known = _are_alike(function, {name}.reference)
            passed = [_own_class(kind, function) for kind in _PASSED]
            given = (_VARIANTS, _CAPTURED, _NAMES, passed)
            made.append(_with_kernels(function, *given) if is_known else None)
        return made[0]

    @functools.wraps(function)
    def patched(*args: object, **kwargs: object) -> object:
        return (served() or function)(*args, **kwargs)

    patched.reference = function
    patched.serves = lambda *args, **kwargs: bool(served() and served().serves(*args, **kwargs))
    return patched


def _own_class(kind: object, function: Callable) -> object:
    """Let results be of the patched file's own class where it is like the one in this file."""
    name = getattr(kind, "__name__", "")
    own = getattr(inspect.unwrap(function), "__globals__", {{}}).get(name)
    if not isinstance(own, type) or not _are_alike(own, kind):
        return kind
    globals()[name] = own
    return own
'''


def patch_of(
    function: Callable[..., object], name: str, files: Sequence[ExportedFile]
) -> ExportedFile:
    """Return the patch: the exported module beside the user's file, and an import after the `def`.

    Paths in it begin at the folder that holds the user's top-level package, so that it applies in
    a repository's root.

    Args:
        function: the user's, defined at the top level of a file.
        name: the function's.
        files: of the exported module: its text alone.

    Raises:
        UnsupportedError: the function is no top-level one of a file, or the module has data.
    """
    if any(f.data is not None for f in files):
        raise UnsupportedError(
            f"a patch holds text, and {name} reads arrays of its module; use --format module."
        )
    file = inspect.getsourcefile(inspect.unwrap(function))
    path = Path(file) if file else None
    before = path.read_text(encoding="utf-8") if path else ""
    last = _last_line(before, name)
    if path is None or last is None:
        raise UnsupportedError(
            f"a patch needs a function that is defined at the top level of a file, found {name!r}; "
            "use --format module."
        )
    files = [_with_decorator(files[0], name)]
    _check_is_known(function, files, name)
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    # Other files of the package may have a function of this name.
    module = f"_{path.stem.strip('_')}_{name.strip('_')}_kernels"
    is_in_package = root != path.parent
    added = _ADDED.format(module=f".{module}" if is_in_package else module, name=name)
    lines = before.splitlines(keepends=True)
    if not lines[last - 1].endswith("\n"):
        lines[last - 1] += "\n"
    after = [*lines[:last], *added.splitlines(keepends=True), *lines[last:]]
    place = path.relative_to(root)
    beside = place.with_name(f"{module}.py").as_posix()
    text = _diff(before.splitlines(keepends=True), after, place.as_posix(), place.as_posix())
    text += _diff([], files[0].text.splitlines(keepends=True), None, beside)
    return ExportedFile(name=f"{name}.patch", text=text)


def _with_decorator(file: ExportedFile, name: str) -> ExportedFile:
    return file.model_copy(update={"text": file.text + _WITH_KERNELS.format(name=name)})


def _check_is_known(
    function: Callable[..., object], files: Sequence[ExportedFile], name: str
) -> None:
    """Refuse a patch where nothing tells a function that was edited later from this one."""
    with imported(files, Path(files[0].name).stem) as module:
        is_known = _are_alike(inspect.unwrap(function), getattr(module, name).reference)
    if not is_known:
        raise UnsupportedError(
            f"a patch would hold a copy of what {name} reads besides functions, classes and plain "
            "constants, and its file may change that; make it an argument, or use --format module."
        )


def _last_line(text: str, name: str) -> int | None:
    """Return the last line of the last top-level statement that binds a name."""
    found = None
    for statement in ast.parse(text).body:
        bound = [statement.name] if isinstance(statement, ast.FunctionDef) else []
        if isinstance(statement, ast.Assign):
            bound = [t.id for t in statement.targets if isinstance(t, ast.Name)]
        if name in bound:
            found = statement.end_lineno
    return found


def _diff(before: Sequence[str], after: Sequence[str], old: str | None, new: str) -> str:
    source = f"a/{old}" if old else "/dev/null"
    lines = difflib.unified_diff(before, after, source, f"b/{new}")
    # A last line without a break is marked as `patch` and `git apply` expect it.
    body = "".join(x if x.endswith("\n") else f"{x}\n\\ No newline at end of file\n" for x in lines)
    header = f"diff --git a/{new} b/{new}\n"
    return header + ("" if old else "new file mode 100644\n") + body
