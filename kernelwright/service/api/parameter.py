"""What every address asks of its query: known names, each once, and text without control codes."""

from fastapi import Request
from fastapi.routing import APIRoute

from kernelwright.errors import InputError

_FIRST_PRINTED = 0x20
_DELETE = 0x7F


def check_query(request: Request) -> None:
    """Check the names and texts of a query.

    Raises:
        InputError: a name is not known there or given twice, or a text holds a control code.
    """
    route = request.scope.get("route")
    assert isinstance(route, APIRoute)
    known = [field.alias for field in route.dependant.query_params]
    given = request.query_params.multi_items()
    for name, value in given:
        if name not in known:
            words = ", ".join(known) or "none"
            raise InputError(f"expected the query parameters {words}, found {name[:80]!r}.")
        if [n for n, _ in given].count(name) > 1:
            raise InputError(f"expected {name} once, found it twice or more; give one value.")
        if any(ord(c) < _FIRST_PRINTED or ord(c) == _DELETE for c in value):
            raise InputError(f"expected {name} without control codes, found {value[:80]!r}.")
