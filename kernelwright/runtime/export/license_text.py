"""The licence that goes along with an export."""

_BEGINNING = """\
The kernels, their launches and the code that chooses between them were printed by Kernelwright,
under the MIT License below. {rest}

"""
_OF_A_FUNCTION = """\
The function itself stands here as its author wrote it, under its
author's own terms, which this file leaves as they are."""
_OF_KERNELS = "There is no other code in here."

_MIT = """\
MIT License

Copyright (c) 2026 The Kernelwright authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""


def license_text(*, holds_function: bool = False) -> str:
    """Return the text; a user's own function in an export keeps its author's terms."""
    rest = _OF_A_FUNCTION if holds_function else _OF_KERNELS
    return _BEGINNING.format(rest=rest) + _MIT
