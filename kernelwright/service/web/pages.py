"""The page's own files, sent as they are."""

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from kernelwright.service.web.asset import asset_names, asset_text

pages = APIRouter(include_in_schema=False)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@pages.get("/")
def read_page() -> Response:
    """Send the page."""
    return Response(asset_text("page.html"), media_type=_TYPES[".html"])


@pages.get("/assets/{name}")
def read_asset(name: str) -> Response:
    """Send a style sheet or a script."""
    if name not in asset_names():
        raise HTTPException(404)
    suffix = name[name.rfind(".") :]
    return Response(asset_text(name), media_type=_TYPES[suffix])


@pages.get("/favicon.ico")
def read_icon() -> Response:
    """Send the icon."""
    return Response(asset_text("icon.svg"), media_type=_TYPES[".svg"])
