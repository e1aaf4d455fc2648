"""Command groups that import a command's module when that command is called.

A help page lists each command with the first paragraph of its docstring, read from the source
text, so that `kernelwright --help` imports none of them.
"""

import ast
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from kernelwright.service.help_page import LISTS_FIT, PANELS_FIT, HelpContext
from kernelwright.service.model_option import check_a_model_is_asked
from kernelwright.service.number_bound import bound_numbers
from kernelwright.service.placeholder import name_placeholder, name_placeholders
from kernelwright.validation import refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click import Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem
    from typer.core import TyperOption


@dataclass(frozen=True)
class CommandEntry:
    """A command that is not imported yet.

    `target` is `package.module:function`. `passes_arguments_on` leaves options that the command
    does not know to whatever it starts.
    """

    target: str
    panel: str | None = None
    passes_arguments_on: bool = False

    @property
    def summary(self) -> str:
        """Return the first paragraph of the function's docstring, from its source."""
        module, _, function = self.target.partition(":")
        return _docstrings(module)[function].partition("\n\n")[0]

    def load(self, name: str) -> TyperCommand:
        """Import the command."""
        module, _, function = self.target.partition(":")
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command(
            name,
            cls=Command,
            rich_help_panel=self.panel,
            context_settings={
                **(settings if self.passes_arguments_on else {}),
                "help_option_names": ["-h", "--help"],
            },
        )(getattr(import_module(module), function))
        command = get_command(app)
        assert isinstance(command, TyperCommand)
        name_placeholders(command)
        bound_numbers(command)
        return command


@dataclass(frozen=True)
class GroupEntry:
    """A group of commands, of which none is imported yet."""

    summary: str
    commands: Mapping[str, CommandEntry]
    panel: str | None = None

    def load(self, name: str) -> TyperGroup:
        """Return the group; its commands are imported as they are called."""
        return LazyGroup(
            name=name,
            help=self.summary,
            rich_help_panel=self.panel,
            entries=self.commands,
            no_args_is_help=True,
            context_settings={"help_option_names": ["-h", "--help"]},
        )


class Command(TyperCommand):
    """A command that says in our words which value an option does not take."""

    context_class = HelpContext

    def get_help_option(self, ctx: "Context") -> "TyperOption | None":
        """Return `--help`, which takes no value."""
        return _named(super().get_help_option(ctx))

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Print the page; narrow panels would cut long words, so only wide terminals get them."""
        if get_terminal_size().columns < PANELS_FIT:
            self.rich_markup_mode = None
        super().format_help(ctx, formatter)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: "Context | None" = None,
        **extra: object,
    ) -> "Context":
        """Read the arguments; what pydantic says of a value is put as our own errors are."""
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except typer.BadParameter as e:
            from pydantic import ValidationError

            if isinstance(e.__cause__, ValidationError):
                e.message = refusal_of(e.__cause__)
            raise
        check_a_model_is_asked(info_name or "", context)
        return context


Entry = CommandEntry | GroupEntry


class LazyGroup(TyperGroup):
    """A group that knows its commands by `entries` and imports the one that is called."""

    context_class = HelpContext
    entries: Mapping[str, Entry] = {}

    def __init__(self, *, entries: Mapping[str, Entry] | None = None, **settings: object) -> None:
        """Take `entries` beside the arguments of `TyperGroup`."""
        super().__init__(**settings)  # type: ignore[arg-type]
        if entries is not None:
            self.entries = entries
        # What a misspelt command is compared with.
        self.commands = {name: TyperCommand(name) for name in self.entries}
        self._lists = False

    def get_help_option(self, ctx: "Context") -> "TyperOption | None":
        """Return `--help`, which takes no value."""
        return _named(super().get_help_option(ctx))

    def list_commands(self, ctx: object) -> list[str]:
        """Return all commands in their order."""
        return list(self.entries)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup | None:
        """Return a command: imported, or only its name and summary while they are listed."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        if self._lists:
            return TyperCommand(cmd_name, help=entry.summary, rich_help_panel=entry.panel)
        return entry.load(cmd_name)

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Print the help page without importing the commands."""
        name_placeholders(self)
        if get_terminal_size().columns < LISTS_FIT:
            self.rich_markup_mode = None
        with self._listing():
            super().format_help(ctx, formatter)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write whole summaries, under the names of the panels of wider terminals."""
        for panel, named in groupby(self.entries.items(), key=lambda item: item[1].panel):
            with formatter.section(panel or "Commands"):
                formatter.write_dl([(name, entry.summary) for name, entry in named])

    def shell_complete(self, ctx: "Context", incomplete: str) -> "list[CompletionItem]":
        """Complete a command's name without importing the commands."""
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listing(self) -> "Iterator[None]":
        self._lists = True
        try:
            yield
        finally:
            self._lists = False


def _named(option: "TyperOption | None") -> "TyperOption | None":
    if option is not None:
        name_placeholder(option)
    return option


@cache
def _docstrings(module: str) -> dict[str, str]:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name: ast.get_docstring(node) or "" for node in functions}
