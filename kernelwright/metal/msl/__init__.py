"""Metal Shading Language as text: tokens, static rules, rewriting."""

from kernelwright.metal.msl.token import Token, TokenKind, tokenize, without_comments

__all__ = ["Token", "TokenKind", "tokenize", "without_comments"]
