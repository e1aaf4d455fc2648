"""Prompts from Markdown templates, versioned by the content of everything they include."""

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files

import jinja2

from kernelwright.agents.message import Prompt

LONGEST_OPENING = 34_000
"""Bytes that a model reads before any history; with a schema and its format it fits 40 KB."""
_SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)
_INCLUDE = re.compile(r'{%-?\s*include\s+"([^"]+)"')


class _Packaged(jinja2.BaseLoader):
    """Reads templates from the package, wheel or checkout alike."""

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str | None, None]:
        return source(template), template, None


@cache
def source(name: str) -> str:
    """Return the text of a template under `prompts/`."""
    place = files("kernelwright").joinpath("prompts", *name.split("/"))
    if not place.is_file():
        raise jinja2.TemplateNotFound(name)
    return place.read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    # Prompts are Markdown for a model, not HTML: escaping would corrupt the code in them.
    return jinja2.Environment(
        loader=_Packaged(),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


def render(name: str, values: Mapping[str, object]) -> str:
    """Render `prompts/NAME.md`; an undefined variable is an error."""
    return _environment().get_template(f"{name}.md").render(values).strip()


def version(*names: str) -> str:
    """Return 12 hex digits over the named templates and what they include."""
    seen: dict[str, str] = {}
    pending = [f"{name}.md" for name in names]
    while pending:
        name = pending.pop()
        if name not in seen:
            seen[name] = source(name)
            pending += _INCLUDE.findall(seen[name])
    text = "\0".join(f"{name}\0{seen[name]}" for name in sorted(seen))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fitted(shortened: Callable[[float], Prompt]) -> Prompt:
    """Return the longest prompt that fits, of those in which long parts have ever smaller shares.

    Of what is longest the task's own graph is cut last.
    """
    for share in _SHARES:
        prompt = shortened(share)
        if prompt.opening_bytes <= LONGEST_OPENING:
            break
    return prompt


def build(
    role: str, *, system: Mapping[str, object], context: str, request: str, templates: str
) -> Prompt:
    """Assemble a prompt from a role's system template and two rendered parts.

    `templates` names the templates beside the role's own, separated by spaces.
    """
    names = (role, *templates.split())
    return Prompt(
        system=render(role, system),
        context=context,
        request=request,
        template=f"{role}@{version(*names)}",
    )
