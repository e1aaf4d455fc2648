"""The versions of the prompts of each role, by the content of every template they may render."""

from kernelwright.agents.roles.text.example import EXAMPLES
from kernelwright.agents.roles.text.prompt import version

_TEMPLATES = {
    "planner": ("planner", "graph", "cut"),
    "coder": (
        *("coder", "rules", "task", "write", "next", "examples"),
        *(f"examples/{example.name}" for example in EXAMPLES),
    ),
    "repairer": ("repairer", "rules", "task", "repair"),
}


def prompt_versions() -> dict[str, str]:
    """Return 12 hex digits for each role; they change with any word that a model may read."""
    return {role: version(*names) for role, names in _TEMPLATES.items()}
