"""The page's files as text."""

from importlib.resources import files


def asset_text(name: str) -> str:
    """Return one of the page's files."""
    return files("kernelwright.service.web").joinpath("assets", name).read_text("utf-8")


def asset_names() -> list[str]:
    """List the page's files."""
    folder = files("kernelwright.service.web").joinpath("assets")
    return sorted(item.name for item in folder.iterdir() if item.is_file())
