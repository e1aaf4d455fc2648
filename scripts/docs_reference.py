"""Writes the site's reference from the code, as a hook of mkdocs."""

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import metadata, requires
from importlib.resources import files as resources
from pathlib import Path

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.core import TyperArgument, TyperCommand, TyperOption

import kernelwright
from kernelwright.campaign.spec.campaign_table import CampaignFile
from kernelwright.service.commands import COMMANDS
from kernelwright.service.lazy_group import GroupEntry
from kernelwright.settings import Settings, variable_of
from kernelwright.store.schema import Base

_TOML_KEY = re.compile(r"^#? ?(?P<key>[a-z_]+) = [^#]*#\s*(?P<words>.+)$")
_TOML_TABLE = re.compile(r"^#? ?\[\[?(?P<table>[a-z_]+)\]\]?")

_CLI_INTRO = """\
An option wins over an environment variable, that over the [settings file](settings.md), and
that over the default. [Exit codes](exit-codes.md) are 0, 1 and 2."""
_SETTINGS_INTRO = """\
`kernelwright.toml`, or the table `[tool.kernelwright]` of a `pyproject.toml`, in the
working folder or the nearest one above it:"""
_SETTINGS_EXAMPLE = """\
```toml title="kernelwright.toml"
store = "kernels.db"        # beside this file
device = "simulator"
model = ["anthropic:NAME"]
budget = 2.50
```"""
_VARIABLES = """\
Two more variables: `KERNELWRIGHT_CACHE` moves what can be built again, and
`KERNELWRIGHT=off` turns all kernels of `kernelwright.optimize` off."""
_EXTRAS_INTRO = """\
`pip install kernelwright` runs kernels of a store, and exports. The rest comes by name, such as
`pip install 'kernelwright[search,models]'`; a command that needs more says so."""
_CAMPAIGN_INTRO = """\
`kernelwright campaign init nightly.toml` writes a commented file; `kernelwright campaign
check` says what it would do. Every key but the targets has a default."""
_PRICES = """\
Dollars per million tokens by `provider:NAME`, where the packaged table is out of date:
`"openai:NAME" = { input = 2.5, output = 15.0, cache_read = 0.25 }`."""
_PYTHON_INTRO = """\
`import kernelwright as kw` is light: MLX, the store and the evaluator are imported with the
first name that needs them."""
_STORE_INTRO = """\
Read it with `kernelwright best`, `show`, `history` and `report --json`, or by
`KernelStore`; the tables may change with a migration. [The store](../store.md) explains it."""


_ROOT = Path(__file__).parent.parent
_MEASURED = "benchmarks/results"
"""The folder outside `docs` whose reports pages may link; the site has them at the same path."""
_LINK = re.compile(r"\]\((?P<target>[^)#\s:]+)")
_OUTWARDS = re.compile(rf"(?<=\]\()(?P<up>(?:\.\./)*)\.\./(?={_MEASURED}/)")

PAGES = (
    "reference/cli.md",
    "reference/settings.md",
    "reference/campaign-file.md",
    "reference/store.md",
    "reference/python.md",
)
"""The pages that are written when the site is built."""


def _texts() -> tuple[str, ...]:
    return command_page(), settings_page(), campaign_page(), store_page(), python_page()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the reports that pages link."""
    for path, text in zip(PAGES, _texts(), strict=True):
        files.append(File.generated(config, path, content=text))
    for path in linked_reports(_ROOT / "docs"):
        inside = path.relative_to(_ROOT).as_posix()
        text, where = path.read_text(encoding="utf-8"), InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, inside, content=text, inclusion=where))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to reports to their place in the site, which has no folder above `docs`."""
    return inwards(markdown)


def inwards(markdown: str) -> str:
    """Return a page with its links to reports one folder less up."""
    return _OUTWARDS.sub(r"\g<up>", markdown)


def linked_reports(docs: Path) -> tuple[Path, ...]:
    """Return the reports that pages link, and those that these link in turn."""
    found: set[Path] = set()
    waiting = sorted(docs.rglob("*.md"))
    while waiting:
        page = waiting.pop()
        text = page.read_text(encoding="utf-8") if page.suffix == ".md" else ""
        for link in _LINK.finditer(text):
            target = (page.parent / link["target"]).resolve()
            if target not in found and target.is_relative_to(_ROOT / _MEASURED):
                found.add(target)
                waiting.append(target)
    return tuple(sorted(found))


def command_page() -> str:
    """Return every command with its arguments and options."""
    parts = [
        "# Command line",
        _CLI_INTRO,
    ]
    for name, entry in COMMANDS.items():
        if isinstance(entry, GroupEntry):
            parts += [f"## {name}", entry.summary]
            for inner, command in entry.commands.items():
                parts += _command(f"{name} {inner}", command.load(inner), level=3)
        else:
            parts += _command(name, entry.load(name), level=2)
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: TyperCommand, *, level: int) -> Iterator[str]:
    context = typer.Context(command, info_name=f"kernelwright {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"{'#' * level} {name}"
    yield f"```text\nkernelwright {name} {usage}\n```"
    yield command.help or ""
    rows = []
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            rows.append((f"`{parameter.display_name_raw}`", parameter.help or "", ""))
        elif isinstance(parameter, TyperOption) and parameter.name != "help":
            flags = ", ".join(f"`{flag}`" for flag in parameter.opts)
            value = f" `{parameter.metavar}`" if parameter.metavar else ""
            rows.append((flags + value, parameter.help or "", _default(parameter)))
    if rows:
        yield _table(("", "meaning", "default"), rows)


def _default(option: TyperOption) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    if option.default in (None, False, "") or not option.show_default:
        return ""
    return f"`{getattr(option.default, 'value', option.default)}`"


def settings_page() -> str:
    """Return the settings file's keys, and the extras of the installation."""
    rows = [
        (f"`{name}`", f"`{variable_of(name)}`", _kind(field), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    named = metadata("kernelwright").get_all("Provides-Extra") or []
    extras = [(f"`{extra}`", ", ".join(_packages(extra))) for extra in sorted(named)]
    return "\n\n".join(
        [
            "# Settings",
            _SETTINGS_INTRO,
            _SETTINGS_EXAMPLE,
            "`kernelwright doctor` says where each value came from. An unknown key is an error.",
            _table(("key", "variable", "type", "meaning"), rows),
            _VARIABLES,
            "## Extras",
            _EXTRAS_INTRO,
            _table(("extra", "brings"), extras),
        ]
    )


def _packages(extra: str) -> Iterator[str]:
    for line in requires("kernelwright") or ():
        if re.search(rf"extra == ['\"]{extra}['\"]", line):
            yield re.split(r"[<>=!~; ]", line)[0]


def campaign_page() -> str:
    """Return the tables and keys of a campaign's file, with the words of its template."""
    words = _template_words()
    parts = [
        "# Campaign files",
        _CAMPAIGN_INTRO,
    ]
    for table, field in CampaignFile.model_fields.items():
        model = _model_in(field.annotation)
        if model is None or table == "prices":
            continue
        head = f"[[{table}]]" if table == "functions" else f"[{table}]"
        rows = [
            (f"`{key}`", _kind(inner), _shown(inner), words.get((table, key), ""))
            for key, inner in model.model_fields.items()
        ]
        parts += [f"## `{head}`", model.__doc__ or "", _table(("key", "type", "default", ""), rows)]
    parts += [
        "## `[prices]`",
        _PRICES,
    ]
    return "\n\n".join(parts) + "\n"


def _template_words() -> dict[tuple[str, str], str]:
    text = resources("kernelwright.campaign.spec").joinpath("nightly.toml").read_text()
    found, table = {}, ""
    for line in text.splitlines():
        if head := _TOML_TABLE.match(line):
            table = head["table"]
        elif match := _TOML_KEY.match(line):
            found[table, match["key"]] = match["words"]
    return found


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, getattr(annotation, "__args__", ()))), None)


def _kind(field: FieldInfo) -> str:
    annotation = field.annotation
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = re.sub(r"\b\w+(?:\.\w+)*\.(\w+)", r"\1", text).replace(" | None", "")
    text = re.sub(r"tuple\[(.+), \.\.\.\]", r"list of \1", text)
    text = re.sub(r"Literal\[(.+)\]", lambda m: m[1].replace("'", '"').replace(", ", " or "), text)
    return text.replace("|", "or")


def _shown(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    return "" if value is None else f"`{list(value) if isinstance(value, tuple) else value}`"


def python_page() -> str:
    """Return every public name, for mkdocstrings to fill in."""
    names = [f"::: kernelwright.{name}" for name in kernelwright.__all__]
    return "\n\n".join(["# Python", _PYTHON_INTRO, *names]) + "\n"


def store_page() -> str:
    """Return the tables of the store."""
    parts = [
        "# Store schema",
        _STORE_INTRO,
    ]
    for table in sorted(Base.metadata.tables.values(), key=lambda table: table.name):
        mapper = next(m for m in Base.registry.mappers if m.local_table is table)
        summary = (mapper.class_.__doc__ or "").strip().partition("\n")[0]
        rows = []
        for column in table.columns:
            references = ", ".join(f"`{key.target_fullname}`" for key in column.foreign_keys)
            key = "primary key" if column.primary_key else references
            optional = "" if column.nullable is False else "may be empty"
            rows.append((f"`{column.name}`", str(column.type).lower(), key, optional))
        parts += [f"## {table.name}", summary, _table(("column", "type", "key", ""), rows)]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
