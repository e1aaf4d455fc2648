"""Joins the page's modules, style and answers into one file that opens without a server."""

import base64
import hashlib
import re

from kernelwright.service.web.asset import asset_text

_ENTRY = "app.js"
_IMPORT = re.compile(
    r"^import (?:\{(?P<names>[^}]*)\}|\* as (?P<whole>\w+)) "
    r'from "\./(?P<file>[\w.]+)";\n',
    re.MULTILINE,
)
_EXPORT = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.MULTILINE)


def bundled_script() -> str:
    """Return the page's modules as one script; each keeps a scope of its own."""
    ordered: dict[str, str] = {}
    _visit(_ENTRY, ordered)
    return "\n".join(["const modules = {};", *ordered.values()])


def _visit(name: str, ordered: dict[str, str]) -> None:
    """Add what a module imports, then the module."""
    if name in ordered:
        return
    text = asset_text(name)
    for found in _IMPORT.finditer(text):
        _visit(found["file"], ordered)
    exported = _EXPORT.findall(text)
    body = re.sub(r"^export ", "", _IMPORT.sub(_binding, text), flags=re.MULTILINE)
    ordered[name] = (
        f'modules["{name}"] = (() => {{\n{body}return {{ {", ".join(exported)} }};\n}})();'
    )


def _binding(found: re.Match[str]) -> str:
    module = f'modules["{found["file"]}"]'
    if found["whole"]:
        return f"const {found['whole']} = {module};\n"
    return f"const {{{found['names'].replace(' as ', ': ')}}} = {module};\n"


def single_file(held: str) -> str:
    """Return the page as one file; `held` is the JSON of the answers that it shows.

    Its content security policy allows this very script and style, and no connection.
    """
    script, style = bundled_script(), asset_text("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    icon = base64.b64encode(asset_text("icon.svg").encode()).decode()
    page = asset_text("page.html")
    # JSON has no use for a bare <, and a page would end its block at one.
    data = held.replace("<", "\\u003c").replace("\u2028", "\\u2028")
    replacements = {
        '<meta charset="utf-8">': '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        'href="/assets/icon.svg"': f'href="data:image/svg+xml;base64,{icon}"',
        '<link rel="stylesheet" href="/assets/page.css">': f"<style>{style}</style>",
        '<script type="module" src="/assets/app.js"></script>\n': "",
        "</body>": f'<script type="application/json" id="held">{data}</script>\n'
        f'<script type="module">{script}</script>\n</body>',
    }
    for old, new in replacements.items():
        assert page.count(old) == 1, old
        page = page.replace(old, new)
    return page


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
