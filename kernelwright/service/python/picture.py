"""A drawing as SVG: a notebook shows it, a file keeps it."""

from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.errors import InputError
from kernelwright.file_write import write_file
from kernelwright.service.python.html import picture_html


@dataclass(frozen=True)
class Picture:
    """An SVG document."""

    svg: str = field(repr=False)
    words: str = "a drawing"
    """What it shows, for those who do not see it."""

    def save(self, path: str | Path) -> Path:
        """Write it, and return its path.

        Raises:
            InputError: it cannot be written there.
        """
        place = Path(path)
        if place.suffix.lower() != ".svg":
            raise InputError(
                f"expected a name that ends in .svg for the drawing, found {str(place)!r}; name it "
                f"{place.with_suffix('.svg')}."
            )
        write_file(place, self.svg)
        return place

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return picture_html(self.svg, self.words)
