"""Options that mean something only where a model is asked: given without one, they are refused."""

from typing import TYPE_CHECKING

from kernelwright.errors import UsageError

if TYPE_CHECKING:
    from typer._click import Context

_CAPS = ("budget", "tokens", "calls")
_NEED_A_MODEL: dict[str, tuple[str, ...]] = {
    "search": (
        *("base_url", *_CAPS, "task_budget", "task_tokens", "task_calls", "task_seconds"),
        *("turns", "tool_calls", "tool_evaluations"),
    ),
    "tune": ("base_url",),
    "redteam": ("base_url", *_CAPS),
    "doctor": ("base_url",),
    "mcp": ("base_url", "budget"),
    "bench-agents": ("base_url", "budget", "tokens", "task_budget"),
}
"""By command, by the names of its parameters."""


def check_a_model_is_asked(command: str, context: "Context") -> None:
    """Refuse options of the command line that nothing reads because no model is asked.

    What settings give is no mistake: it waits for a command that asks one.

    Raises:
        UsageError: there is one.
    """
    is_replayed = context.params.get("replay") is not None
    if is_replayed or set(context.params.get("model") or ()) - {"none"}:
        return
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        is_written = source is not None and source.name == "COMMANDLINE"
        if is_written and name in _NEED_A_MODEL.get(command, ()):
            raise UsageError(
                f"{parameter.opts[0]} is for models, and no model is asked; name one with --model."
            )
