"""A Swift function that launches the kernels through mlx-swift's `MLXFast.metalKernel`."""

import math
import textwrap
from collections.abc import Sequence

from kernelwright.errors import UnsupportedError
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch
from kernelwright.metal.render import kernel_name
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.integer_range import integers_of
from kernelwright.runtime.export.license_text import license_text
from kernelwright.runtime.export.reference_code import parameter_names
from kernelwright.runtime.export.selection import WARNING, Selection
from kernelwright.runtime.export.test_code import expected_values
from kernelwright.runtime.export.verification import verification_text

_LIMITS = (
    "The Swift text was printed for mlx-swift and not compiled; run `swift test` on a Mac.",
    "Other shapes and dtypes: the function returns nil, or runs the fallback that it is given.",
    "Gradients: a Metal kernel has none of its own.",
)

_PACKAGE = """\
// swift-tools-version: 5.9
{notice}import PackageDescription

let package = Package(
    name: "{module}",
    platforms: [.macOS(.v14), .iOS(.v17)],
    products: [.library(name: "{module}", targets: ["{module}"])],
    dependencies: [
        .package(url: "https://github.com/ml-explore/mlx-swift", from: "0.25.0")
    ],
    targets: [
        .target(name: "{module}", dependencies: [.product(name: "MLX", package: "mlx-swift")]),
        .testTarget(name: "{module}Tests", dependencies: ["{module}"]),
    ]
)
"""

_TESTS = """\
{notice}import MLX
import XCTest

@testable import {module}

final class {module}Tests: XCTestCase {{
    /// Arrays whose every element is exact in its dtype; `integers` are those that it takes.
    private func example(
        _ shape: [Int], _ dtype: DType, _ place: Int,
        _ integers: (first: Int64, step: Int64, count: Int)? = nil
    ) -> MLXArray {{
        let count = shape.reduce(1, *)
        let steps = (0 ..< count).map {{ ($0 * 37 + 11 * place) % 101 }}
        if let taken = integers {{
            // Unsigned ones of 64 bits wrap around, as they do in MLX.
            let values = steps.map {{ taken.first &+ taken.step &* Int64($0 % taken.count) }}
            return MLXArray(values, shape).asType(dtype)
        }}
        let values: [Float] = steps.map {{ step in
            dtype == .bool ? (step % 3 != 0 ? 1 : 0) : (Float(step) - 50) / 32
        }}
        return MLXArray(values, shape).asType(dtype)
    }}

    private func examples() -> [MLXArray] {{
        [
{examples}
        ]
    }}

    func testItGivesTheValuesOfTheOriginal() {{
        let x = examples()
        guard let made = {name}({taken}) else {{
            return XCTFail("arrays as searched are not served")
        }}
        let results = {listed}
        // Some elements of each result, by flat index, from a float64 oracle.
        let expected: [[(Int, Float)]] = [
{expected}
        ]
        for (result, samples) in zip(results, expected) {{
            let flat = result.asType(.float32).reshaped([-1]).asArray(Float.self)
            for (index, value) in samples {{
                XCTAssertEqual(flat[index], value, accuracy: {tolerance} * max(1, abs(value)))
            }}
        }}
    }}

    func testAnotherShapeRunsTheFallback() {{
        let x = [MLXArray.zeros([3, 1, 2, 1, 5])] + examples().dropFirst()
        XCTAssertNil({name}({taken}))
        var fellBack = false
        _ = {name}({taken}) {{ ({closure}) in
            fellBack = true
            return {unused}
        }}
        XCTAssertTrue(fellBack)
    }}
}}
"""
_TAKEN = frozenset({"in", "is", "as", "let", "var", "func", "self", "init", "fallback", "where"})


class SwiftFormat:
    """A Swift package with one function, its tests, the licence and VERIFICATION.md."""

    takes_several = False

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Print the function for the shapes that were verified."""
        (chosen,) = selections
        module = _module(chosen.name)
        sources, tests = f"Sources/{module}", f"Tests/{module}Tests"
        return (
            ExportedFile(name=f"{sources}/{chosen.name}.swift", text=_source(chosen)),
            ExportedFile(
                name="Package.swift", text=_PACKAGE.format(module=module, notice=_notice(chosen))
            ),
            ExportedFile(name=f"{tests}/{module}Tests.swift", text=_tests(chosen, module)),
            ExportedFile(name="LICENSE", text=license_text()),
            ExportedFile(name="VERIFICATION.md", text=verification_text(chosen, _LIMITS)),
        )

    def use(self, name: str) -> str:
        """Return an import."""
        return f"import {_module(name)}"


def _notice(chosen: Selection) -> str:
    return "" if chosen.is_verified else f"// {WARNING}\n"


def _module(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) or "Kernels"


def _arguments(chosen: Selection) -> list[str]:
    names = parameter_names(chosen.detail.graph)
    return [f"{n}_" if n in _TAKEN or n.startswith("made") else n for n in names]


def _source(chosen: Selection) -> str:
    bound = chosen.detail.program.bind(chosen.detail.graph.input_types)
    names = _arguments(chosen)
    takes, gives = ", ".join(map(str, bound.inputs)), ", ".join(map(str, bound.outputs))
    result = "MLXArray" if len(bound.outputs) == 1 else "[MLXArray]"
    parameters = ", ".join(f"_ {name}: MLXArray" for name in names)
    given = ", ".join(names)
    lines = [
        f"{_notice(chosen)}// Found by Kernelwright; VERIFICATION.md says what was checked.",
        "",
        "import MLX",
        "",
        *(_kernel(launch.kernel, n) for n, launch in enumerate(bound.launches, 1)),
        "/// Whether the kernels take these arrays: their shapes and dtypes.",
        f"public func {chosen.name}Serves({parameters}) -> Bool {{",
        f"    {_conditions(bound, names)}",
        "}",
        "",
        f"/// {chosen.name} by the kernels: {takes} -> {gives}; nil where they do not serve.",
        f"public func {chosen.name}({parameters}) -> {result}? {{",
        f"    guard {chosen.name}Serves({given}) else {{ return nil }}",
    ]
    places = dict(zip((t.name for t in bound.program.inputs), names, strict=True))
    for number, launch in enumerate(bound.launches, 1):
        lines += _launch(bound, launch, number, places)
        places |= {name: f"made{number}[{i}]" for i, name in enumerate(launch.kernel.outputs)}
    results = [places[t.name] for t in bound.program.outputs]
    returned = results[0] if len(results) == 1 else f"[{', '.join(results)}]"
    types = ", ".join("MLXArray" for _ in names)
    lines += [
        f"    return {returned}",
        "}",
        "",
        f"/// {chosen.name} by the kernels where they serve, else by a fallback.",
        f"public func {chosen.name}(",
        f"    {parameters}, fallback: ({types}) throws -> {result}",
        f") rethrows -> {result} {{",
        f"    if let made = {chosen.name}({given}) {{ return made }}",
        f"    return try fallback({given})",
        "}",
    ]
    return "\n".join([*lines, ""])


def _conditions(bound: BoundProgram, names: Sequence[str]) -> str:
    conditions = [
        f"{name}.dtype == {_dtype(type_.dtype)} && {name}.shape == {list(type_.shape)}"
        for name, type_ in zip(names, bound.inputs, strict=True)
    ]
    return "\n        && ".join(conditions) or "true"


def _tests(chosen: Selection, module: str) -> str:
    graph = chosen.detail.graph
    types = graph.input_types
    is_one = len(graph.output_types) == 1
    tolerance = 2 * max(Tolerance.of(type_.dtype).relative for type_ in graph.output_types)
    return _TESTS.format(
        notice=_notice(chosen),
        module=module,
        name=chosen.name,
        examples=",\n".join(
            f"            example({list(t.shape)}, {_dtype(t.dtype)}, {i}{_integers(integers)})"
            for i, (t, integers) in enumerate(zip(types, integers_of(graph), strict=True))
        ),
        taken=", ".join(f"x[{i}]" for i in range(len(types))),
        closure=", ".join("_" for _ in types),
        listed="[made]" if is_one else "made",
        unused="x[0]" if is_one else "x",
        expected=",\n".join(
            f"            [{', '.join(f'({i}, {_literal(v)})' for i, v in samples)}]"
            for samples in expected_values(graph)
        ),
        tolerance=repr(tolerance),
    )


def _integers(integers: range | None) -> str:
    """Return the last argument of an example in Swift."""
    return f", ({integers.start}, {integers.step}, {len(integers)})" if integers else ""


def _literal(text: str) -> str:
    """Return a Swift number of a Python one."""
    return _float(
        float({"True": "1", "False": "0"}.get(text, text.removeprefix("float(").strip('")')))
    )


def _kernel(kernel: Kernel, number: int) -> str:
    if kernel.math_mode != "safe":
        raise UnsupportedError(
            f"mlx-swift takes no math mode, found {kernel.math_mode!r}; use --format cpp or mlxfn."
        )
    return "\n".join(
        [
            f"private let kernel{number} = MLXFast.metalKernel(",
            f'    name: "{kernel_name(kernel)}",',
            f"    inputNames: {_names(kernel.inputs)},",
            f"    outputNames: {_names(kernel.outputs)},",
            f"    source: {_text(kernel.source)},",
            f"    header: {_text(kernel.header)},",
            f"    ensureRowContiguous: {str(kernel.ensure_row_contiguous).lower()},",
            f"    atomicOutputs: {str(kernel.atomic_outputs).lower()})",
            "",
        ]
    )


def _launch(bound: BoundProgram, launch: Launch, number: int, places: dict[str, str]) -> list[str]:
    kernel = launch.kernel
    outputs = [bound.type_of(name) for name in kernel.outputs]
    lines = [
        f"    let made{number} = kernel{number}(",
        f"        [{', '.join(places[name] for name in kernel.inputs)}],",
    ]
    if launch.template:
        values = ", ".join(f'("{n}", {_template(v)})' for n, v in launch.template)
        lines.append(f"        template: [{values}],")
    lines += [
        f"        grid: {launch.grid},",
        f"        threadGroup: {launch.threadgroup},",
        f"        outputShapes: {[list(t.shape) for t in outputs]},",
        f"        outputDTypes: [{', '.join(_dtype(t.dtype) for t in outputs)}],",
    ]
    if kernel.init_value is not None:
        lines.append(f"        initValue: {_float(kernel.init_value)},")
    return [*lines, "        stream: .gpu)"]


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return "-Float.infinity" if value < 0 else ".infinity"
    return repr(value)


def _names(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _text(source: str) -> str:
    if not source:
        return '""'
    # The empty line ends the text with a line end: MLX joins header and function without one.
    # Swift takes the closing quotes' indentation off every line; # keeps backslashes as they are.
    body = textwrap.indent(source.strip("\n"), "        ")
    return f'#"""\n{body}\n\n        """#'


def _dtype(dtype: Dtype) -> str:
    return f".{dtype.value}"


def _template(value: Dtype | bool | int) -> str:
    if isinstance(value, Dtype):
        return f"DType{_dtype(value)}"
    return str(value).lower()
