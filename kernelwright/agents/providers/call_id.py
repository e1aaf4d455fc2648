"""Ids of tool calls, each of which has to be answered by its own."""

from collections.abc import Iterable


def unique_ids(ids: Iterable[str]) -> list[str]:
    """Return the ids of one turn's calls, those renamed that are empty or were there before.

    Providers refuse a conversation in which two calls, and so two answers, share an id.
    """
    found: list[str] = []
    for place, id_ in enumerate(ids):
        name = id_ or f"call_{place}"
        while name in found:
            name = f"{name}_{place}"
        found.append(name)
    return found
