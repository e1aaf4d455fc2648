"""Counts words: 1 kernel, 2 kernels, 0 kernels."""


def counted(count: int, word: str, plural: str = "") -> str:
    """Return a number with its word, in the singular for one.

    Args:
        count: how many; digits are grouped from ten thousand on.
        word: in the singular.
        plural: where it is not the word with an s.
    """
    shown = f"{count:,}" if abs(count) >= 10_000 else str(count)
    return f"{shown} {word if count == 1 else plural or f'{word}s'}"
