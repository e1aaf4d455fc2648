"""What stands between double brackets."""

from kernelwright.metal.msl.structure import Structure, split


def read_attributes(structure: Structure, start: int, end: int) -> list[tuple[str, str, int]]:
    """Read `[[a, b(n)]]` between its outer brackets as name, argument text and token."""
    found = []
    for part in split(structure, start + 2, end - 1):
        name_at = part.start
        while structure.spelling(name_at + 1) == "::":
            name_at += 2
        argument = ""
        if structure.spelling(name_at + 1) == "(":
            close = structure.partner.get(name_at + 1, end)
            argument = structure.text(name_at + 2, close - 1)
        found.append((structure.spelling(name_at), argument, name_at))
    return found
