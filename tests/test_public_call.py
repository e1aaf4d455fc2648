"""Errors speak of arguments in Python, and of flags on the command line."""

import pytest

from kernelwright.errors import InputError
from kernelwright.public_call import in_python, one_sentence


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ("add --force to overwrite it.", "add force=True to overwrite it."),
        ("or add --slower.", "or add slower=True."),
        ("use --format cpp or mlxfn.", "use format_name='cpp' or mlxfn."),
        ("choose another --name.", "choose another `name`."),
        ("choose another with --store", "choose another with `store`"),
        ("check --base-url if you gave one.", "check `base_url` if you gave one."),
        ("choose another with -o.", "choose another with `directory`."),
        ("write one as -i 'f16[8]'", "write one as inputs='f16[8]'"),
        ("run `kernelwright verify 7f3a --case 2`", "run `kernelwright verify 7f3a --case 2`"),
        ("start: kernelwright worker --database URL", "start: kernelwright worker --database URL"),
        ("found -1 -- not 3", "found -1 -- not 3"),
    ],
)
def test_flags_become_arguments_but_for_those_of_commands(flags: str, arguments: str) -> None:
    assert in_python(flags) == arguments


def test_an_error_of_a_public_function_speaks_of_arguments() -> None:
    @one_sentence
    def fails() -> None:
        raise InputError("it differs; export with --force to see the files.")

    with pytest.raises(InputError, match="export with force=True to see the files"):
        fails()
