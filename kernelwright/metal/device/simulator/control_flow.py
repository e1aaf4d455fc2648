"""Loops in the control flow of a function that clang has listed."""

from collections.abc import Iterator, Mapping, Sequence


def back_edges(successors: Mapping[str, Sequence[str]], entry: str) -> Iterator[tuple[str, str]]:
    """Yield each edge to a block that is being visited, depth first from `entry`."""
    done: set[str] = set()
    on_path = {entry}
    path = [(entry, iter(successors[entry]))]
    while path:
        block, rest = path[-1]
        following = next(rest, None)
        if following is None:
            path.pop()
            on_path.discard(block)
            done.add(block)
        elif following in on_path:
            yield block, following
        elif following not in done:
            on_path.add(following)
            path.append((following, iter(successors.get(following, ()))))
