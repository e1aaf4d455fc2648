"""Variables of a body in threadgroup memory: references to what the runtime allocates."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from kernelwright.metal.msl.edit import Editor
from kernelwright.metal.msl.structure import Declarator, Structure, Variable, join
from kernelwright.metal.msl.token import Token


@dataclass(frozen=True, slots=True)
class NumberedVariable:
    """A variable that the runtime knows by its place in a list."""

    name: str
    file: str
    line: int
    column: int


@dataclass
class ThreadgroupVariables:
    """Moves the threadgroup variables of one file's bodies into the threadgroup's memory."""

    editor: Editor
    file: str
    limit: int
    """Bytes of threadgroup memory."""
    variables: list[NumberedVariable]
    """Those of the whole program so far; their places are their ids."""

    def move(
        self, structure: Structure, declared: Iterable[Variable]
    ) -> tuple[NumberedVariable, ...]:
        """Move those of one body; return the ones that its lambdas declare."""
        sizes: list[tuple[tuple[int, ...], str]] = []
        misplaced: list[NumberedVariable] = []
        for variable in declared:
            if not all(structure.spelling(d.name_at) for d in variable.declarators):
                continue
            before = len(self.variables)
            pointers = [_own_space(structure, d) for d in variable.declarators]
            keyword = next(
                (
                    i
                    for i in structure.qualifiers(variable)
                    if structure.spelling(i) == "threadgroup"
                ),
                None,
            )
            if pointers and all(pointers):
                self._move_pointers(structure, variable, sizes)
            elif keyword is not None and not all(d.marks for d in variable.declarators):
                self._move_arrays(structure, variable, keyword, sizes)
            if any(start < variable.start < end for start, end in structure.lambdas):
                misplaced += self.variables[before:]
        return tuple(misplaced)

    def _move_arrays(
        self,
        structure: Structure,
        variable: Variable,
        keyword: int,
        sizes: list[tuple[tuple[int, ...], str]],
    ) -> None:
        """Turn one declaration into a typedef and references to the threadgroup's memory.

        What it also declares as pointers stays, as a declaration of its own. `sizes` tells in
        which blocks others were declared before, and what they take.
        """
        words = [structure.code[i] for i in variable.specifiers if i != keyword]
        if not variable.declarators[0].marks:
            word = structure.code[keyword]
            self.editor.replace(word.offset, word.text, "typedef")
        self._drop_alignment(structure, variable)
        references: list[str] = []
        for declarator, following in zip_longest(variable.declarators, variable.declarators[1:]):
            if not declarator.marks:
                size, reference = self._reference(structure.code[declarator.name_at])
                sizes.append((variable.blocks, size))
                references.append(reference)
            if following is not None and bool(following.marks) != bool(declarator.marks):
                comma = structure.code[following.start - 1]
                head = "threadgroup" if following.marks else "typedef"
                after = "".join((";", *references, f" {head} {join(words)}"))
                self.editor.replace(comma.offset, comma.text, after)
                references = []
        self._end(structure, variable, sizes, references)

    def _move_pointers(
        self, structure: Structure, variable: Variable, sizes: list[tuple[tuple[int, ...], str]]
    ) -> None:
        """Do the same with `threadgroup float* threadgroup p`: a pointer that all threads share."""
        self.editor.insert(structure.code[variable.start].offset, "typedef ")
        references: list[str] = []
        for declarator in variable.declarators:
            for index in _own_space(structure, declarator):
                token = structure.code[index]
                self.editor.replace(token.offset, token.text, "")
            size, reference = self._reference(structure.code[declarator.name_at])
            sizes.append((variable.blocks, size))
            references.append(reference)
        self._end(structure, variable, sizes, references)

    def _end(
        self,
        structure: Structure,
        variable: Variable,
        sizes: list[tuple[tuple[int, ...], str]],
        references: list[str],
    ) -> None:
        """Put the references behind a declaration, and check what is alive with it."""
        alive = (s for blocks, s in sizes if variable.blocks[: len(blocks)] == blocks)
        check = f" static_assert(kw_threadgroup_memory<{' + '.join(alive)}, {self.limit}>());"
        self.editor.insert(structure.code[variable.end].end, "".join((*references, check)))

    def _reference(self, name: Token) -> tuple[str, str]:
        """Give a variable's name to its type; return its size, and the reference of its name."""
        number, spelled = len(self.variables), name.spelling
        self.variables.append(NumberedVariable(spelled, self.file, name.line, name.column))
        type_ = f"kw_threadgroup_{number}"
        self.editor.replace(name.offset, name.text, type_)
        return f"sizeof({type_})", (
            f" threadgroup {type_}& {spelled} = *(threadgroup {type_}*)"
            f"kw_threadgroup_alloc({number}, sizeof({type_}), alignof({type_}));"
        )

    def _drop_alignment(self, structure: Structure, variable: Variable) -> None:
        """Take an `alignas(n)` away, which no typedef may have.

        Every variable begins at a multiple of 64 bytes.
        """
        for index in variable.specifiers:
            if structure.spelling(index) == "alignas" and index + 1 in structure.partner:
                for place in range(index, structure.partner[index + 1] + 1):
                    token = structure.code[place]
                    self.editor.replace(token.offset, token.text, "")


def _own_space(structure: Structure, declarator: Declarator) -> list[int]:
    """Return where a pointer's declarator says that the pointer itself is the threadgroup's."""
    if not declarator.marks:
        return []
    behind = range(declarator.marks[-1] + 1, declarator.name_at)
    return [i for i in behind if structure.spelling(i) == "threadgroup"]
