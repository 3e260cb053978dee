"""Tables as text, Markdown, LaTeX and HTML."""

from __future__ import annotations

import dataclasses
import html
import re
import textwrap
import unicodedata
from collections.abc import Callable, Sequence

from tfr_ext.core import messages

DAGGER, UP, DOWN = "†", "↑", "↓"
_LATEX = {
    **{character: f"\\{character}" for character in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    DAGGER: r"$^{\dagger}$",
    UP: r"$\uparrow$",
    DOWN: r"$\downarrow$",
}
_BOLD, _NOT_BOLD = "\033[1m", "\033[0m"


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell; `mark` follows its text, and only HTML shows a second line, `below`."""

    text: str
    mark: str = ""
    bold: bool = False
    below: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of untrusted texts, which each output form escapes.

    Attributes:
        notes: the paragraphs below the table; together, its caption in LaTeX.
        right: whether plain text aligns all columns but the first to the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    notes: Sequence[str] = ()
    right: bool = False

    def _shown(
        self, escape: Callable[[str], str], bold: str, below: str = ""
    ) -> list[list[str]]:
        """Returns the rows as texts; `bold` and `below` are forms with '{}'."""

        def shown(cell: Cell | str) -> str:
            if isinstance(cell, str):
                return escape(cell)
            form = bold if cell.bold else "{}{}"
            more = below.format(escape(cell.below)) if cell.below else ""
            return form.format(escape(cell.text), escape(cell.mark)) + more

        return [[*map(shown, row)] for row in self.rows]

    def to_text(self, bold: bool = False) -> str:
        """Returns the table for a terminal, with bold text if `bold`, else stars."""
        marked = f"{_BOLD}{{}}{{}}{_NOT_BOLD}" if bold else "{}*{}"
        rows = [[*map(messages.visible, self.header)]]
        rows += self._shown(messages.visible, marked)
        widths = [max(map(_length, column)) for column in zip(*rows)]
        if self.right:
            widths[1:] = [max(8, width) for width in widths[1:]]
        lines = []
        for row in rows:
            gaps = [" " * (w - _length(text)) for text, w in zip(row, widths)]
            first, *others = zip(row, gaps)
            cells = [first, *(pair[::-1] if self.right else pair for pair in others)]
            lines.append("  ".join(map("".join, cells)).rstrip())
        notes = (textwrap.fill(messages.visible(note), 88) for note in self.notes)
        return "\n".join([*lines, *notes])

    def to_markdown(self) -> str:
        """Returns the table in Markdown."""
        header = [*map(_in_markdown, self.header)]
        table = markdown(header, self._shown(_in_markdown, "**{}**{}"))
        return "\n\n".join([table, *map(as_markdown, self.notes)]) + "\n"

    def to_latex(self) -> str:
        r"""Returns the table in LaTeX, for a document with `\usepackage{booktabs}`."""
        rows = self._shown(as_latex, "\\textbf{{{}}}{}")
        lines = [
            "% Needs \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{as_latex(' '.join(self.notes))}}}",
            f"\\begin{{tabular}}{{{'l' * len(self.header)}}}",
            "\\toprule",
            " & ".join(map(as_latex, self.header)).strip() + " \\\\",
            "\\midrule",
            *(" & ".join(row) + " \\\\" for row in rows),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """Returns the table and its notes as elements of a page."""
        head = "".join(f'<th scope="col">{_html(text)}</th>' for text in self.header)
        below = '<br><span class="dim">{}</span>'
        body = "".join(
            f'<tr><th scope="row">{first}</th>'
            + "".join(f"<td>{text}</td>" for text in others)
            + "</tr>"
            for first, *others in self._shown(_html, "<b>{}</b>{}", below)
        )
        table = (
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
        return "\n".join([table, *(f"<p>{_html(note)}</p>" for note in self.notes)])


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of texts that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def as_markdown(text: str) -> str:
    r"""Returns text as Markdown shows it, on one line.

    Examples:
        >>> print(as_markdown('1. *a* | #b'))
        1\. \*a\* \| \#b
    """
    # Would begin a list or underline a heading.
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", _in_markdown(text))


def _in_markdown(text: str) -> str:
    """Returns text as Markdown shows it inside of a line."""
    return re.sub(r"([\\|*_`<>\[\]#~$&])", r"\\\1", _on_one_line(text))


def as_latex(text: str) -> str:
    r"""Returns text as LaTeX sets it, on one line.

    Examples:
        >>> as_latex('SmoothI_α & 5%')
        'SmoothI\\_$\\alpha$ \\& 5\\%'
    """
    return "".join(_LATEX.get(c) or _greek(c) or c for c in _on_one_line(text))


def _on_one_line(text: str) -> str:
    return messages.visible(" ".join(text.split()))


def _greek(character: str) -> str:
    """Returns the command of a small Greek letter, which pdfLaTeX needs."""
    name = unicodedata.name(character, "").split()
    if name[:3] != ["GREEK", "SMALL", "LETTER"] or len(name) != 4:
        return ""
    other = {"lamda": "\\lambda", "omicron": "o"}
    command = name[3].lower()
    return "$" + other.get(command, "\\" + command) + "$"


def _html(text: str) -> str:
    return html.escape(messages.visible(text))


def _length(text: str) -> int:
    """Returns how many columns of a terminal a text takes."""
    return len(text.replace(_BOLD, "").replace(_NOT_BOLD, ""))
