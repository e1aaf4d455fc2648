"""Prints a function's section of VERIFICATION.md: what was verified, on what, and what was not."""

from collections.abc import Sequence

from kernelwright.runtime.export.function.arguments_code import imported_name, target_source
from kernelwright.runtime.export.function.module_code import FunctionModule
from kernelwright.runtime.export.function.proof import Check
from kernelwright.runtime.export.selection import Selection
from kernelwright.runtime.export.verification import verification_text

_LIMITS = (
    "Derivatives and `mx.vmap` are those of the function as it is written.",
    "Sizes that are not listed above: the function runs as it is written there.",
    "Writing to a captured array past MLX (`np.array(a, copy=False)[0] = 1`) is not noticed.",
)


def function_verification(
    module: FunctionModule,
    checks: Sequence[Check],
    remarks: Sequence[str] = (),
    *,
    is_patch: bool = False,
) -> str:
    """Return the section's text."""
    own = imported_name(module.source)
    called = target_source(module.source)
    imported = f"It is `{called}` of the module: `from {module.name} import {own}`.\n"
    patched = (
        f"The patch makes `{own}` of its file run them, as long as its code and the constants that "
        "it reads stay what they are; once edited, it runs as it is written.\n"
    )
    parts = [
        f"# What is known about `{module.title}`\n",
        patched if is_patch else imported,
        _served(module),
        _checks(checks),
        *(["## Not kept\n\n" + "".join(f"- {r}\n" for r in remarks)] if remarks else []),
    ]
    for number, detail in enumerate(module.details, 1):
        evaluation = detail.evaluations[0].evaluation if detail.evaluations else None
        is_verified = evaluation is not None and evaluation.is_correct
        revoked = any(c.freshness == "revoked" for c in detail.champion_on)
        chosen = Selection(detail, f"_kernel_{number}", is_verified and not revoked, revoked)
        text = verification_text(chosen, _LIMITS)
        parts.append(
            "\n".join(f"#{x}" if x.startswith("#") else x for x in text.splitlines()) + "\n"
        )
    return "\n".join(parts)


def _served(module: FunctionModule) -> str:
    lines = ["Kernels serve these calls; every other runs the function as it is written.\n"]
    numbers = {d.candidate.program_id: i for i, d in enumerate(module.details, 1)}
    for variant in module.variants:
        types = ", ".join(map(str, variant.argument_types)) or "no arrays"
        kernels = sorted({numbers[d.candidate.program_id] for d in variant.kernels.values()})
        named = ", ".join(f"`_kernel_{n}`" for n in kernels)
        rest = variant.regions - len(variant.kernels)
        left = f"; {rest} of {variant.regions} regions stay with MLX" if rest else ""
        lines.append(f"- `{types}`: {named}, judged on {variant.chip}{left}")
    return "\n".join(lines) + "\n"


def _checks(checks: Sequence[Check]) -> str:
    if not checks:
        return "**The module was not compared with the original.** It was exported by force.\n"
    lines = [
        "## Compared with the original when it was exported\n",
        "The module alone, in a process that finds MLX and nothing else, to the last bit; its",
        "kernels within the dtype's tolerance.\n",
    ]
    has_several = len({check.call for check in checks}) > 1
    call = ""
    for check in checks:
        if has_several and check.call != call:
            lines += [*([""] if call else []), f"### Call {check.call}\n"]
            call = check.call
        mark = "x" if check.outcome == "equal" else " "
        said = check.detail if check.outcome == "equal" else f"{check.outcome}: {check.detail}"
        note = f" ({said})" if said else ""
        lines.append(f"- [{mark}] {check.what}{note}")
    return "\n".join(lines) + "\n"
