"""Runs the examples, and writes their pages and notebooks.

    python examples/build.py [NAME...]

A script of this folder is made of cells: `# %%` begins code, `# %% [markdown]` prose.
They are run as a notebook. With what they print and draw they become
docs/examples/NAME.md, with docs/examples/figures/NAME.png; those of `NOTEBOOKS` become
NAME.ipynb in this folder as well. Only what is named is run; the index has all of them.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import io
import os
import pathlib
import re
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
PAGES = HERE.parent / "docs" / "examples"
# In the order of the index.
EXAMPLES = (
    "plain_fit",
    "arrays_and_groups",
    "shop",
    "compare_losses",
    "judgement_distributions",
    "own_relaxation",
    "tfr_pipeline",
)
NOTEBOOKS = ("plain_fit", "arrays_and_groups")


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a script: code, or prose in Markdown."""

    is_code: bool
    text: str


def cells(name: str) -> list[Cell]:
    """Returns the cells of a script; the first, its docstring, begins with the title.

    Args:
        name: name of the script.
    """
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    start, *parts = re.split(r"^# %%( \[markdown\])?\n", text, flags=re.M)
    if start:
        raise ValueError(f"{name}.py does not begin with a cell: {start!r}.")
    found = []
    for prose, part in zip(parts[::2], parts[1::2]):
        if not prose:
            found.append(Cell(True, part.strip()))
        elif part.startswith('"""'):
            title, rest = part.strip().strip('"').split("\n", 1)
            found.append(Cell(False, f"# {title.rstrip('.')}\n{rest}".strip()))
        else:
            found.append(Cell(False, re.sub(r"^# ?", "", part, flags=re.M).strip()))
    return found


def notebook(name: str) -> Any:
    """Returns a script as a notebook that has been run."""
    import nbclient
    from nbformat import v4

    made = [
        (v4.new_code_cell if cell.is_code else v4.new_markdown_cell)(
            cell.text, id=f"cell-{i}"
        )
        for i, cell in enumerate(cells(name))
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = v4.new_notebook(cells=made, metadata={"kernelspec": kernel})
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(
            book,
            timeout=600,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        ).execute()
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = [shown(x) for x in cell.outputs if is_told(x)]
    return book


def is_told(output: Any) -> bool:
    """Returns whether an output is the script's own, and strips it of TensorFlow's log.

    In a notebook TensorFlow logs to the standard output.
    """
    if output.output_type == "stream":
        output.text = re.sub(
            r"^(INFO|WARNING):tensorflow:.*\n", "", output.text, flags=re.M
        )
        return output.name == "stdout" and bool(output.text)
    return True


def shown(output: Any) -> Any:
    """Returns an output as it is shown: an image has few colours.

    Raises:
        ValueError: if it is neither text printed nor an image.
    """
    if output.output_type == "stream":
        return output
    if output.output_type != "display_data" or "image/png" not in output.data:
        raise ValueError(f"An output is neither printed nor an image: {output}.")
    import PIL.Image

    drawn = io.BytesIO(base64.b64decode(output.data["image/png"]))
    small = io.BytesIO()
    PIL.Image.open(drawn).convert("RGB").quantize(64).save(small, "PNG", optimize=True)
    output.data = {"image/png": base64.b64encode(small.getvalue()).decode()}
    return output


def page(name: str, book: Any) -> tuple[str, bytes]:
    """Returns the page of an example in Markdown, and its figure as a PNG.

    Args:
        name: name of the script.
        book: its notebook, run.
    """
    (title, *_), figure, parts = title_and_summary(name), b"", []
    for i, cell in enumerate(book.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            if not i:
                parts.append(f"To run it: `python examples/{name}.py`.")
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            if output.output_type == "stream":
                parts.append(f"```text\n{output.text.rstrip()}\n```")
            else:
                figure = base64.b64decode(output.data["image/png"])
                parts.append(f"![{title}](figures/{name}.png)")
    return "\n\n".join(parts) + "\n", figure


def title_and_summary(name: str) -> tuple[str, str]:
    """Returns the title of an example, and the paragraph that follows it."""
    title, summary = cells(name)[0].text.split("\n\n")[:2]
    return title.removeprefix("# "), " ".join(summary.split())


def index() -> str:
    """Returns the page that lists the examples."""
    rows = "\n".join(
        f"| [{title_and_summary(name)[0]}]({name}.md) | `{name}.py` |"
        for name in EXAMPLES
    )
    books = " and ".join(f"`{name}.ipynb`" for name in NOTEBOOKS)
    return f"""# Examples

Scripts that read as tutorials, in the folder `examples/`. Each draws its own data and
runs in seconds on two cores. The pages show what they print and draw.

| what you learn | script |
|---|---|
{rows}

Run one by `python examples/plain_fit.py`, or open it in an editor that knows `# %%`
cells and run it cell by cell. {books} are notebooks of
two of them, with outputs.

`make examples` runs all of them and writes these pages anew. What they show was made
with TensorFlow 2.15 (stack A); other versions give slightly different figures.
"""


def main() -> None:
    """Writes what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all by default")
    names = parser.parse_args().names or EXAMPLES
    import nbformat

    os.environ["PYTHONPATH"] = str(HERE.parent)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    (PAGES / "figures").mkdir(parents=True, exist_ok=True)
    (PAGES / "index.md").write_text(index(), encoding="utf-8")
    for name in names:
        book = notebook(name)
        text, figure = page(name, book)
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
        (PAGES / "figures" / f"{name}.png").write_bytes(figure)
        if name in NOTEBOOKS:
            nbformat.write(book, HERE / f"{name}.ipynb")
        print(f"docs/examples/{name}.md ({len(figure) / 1000:.0f} kB of figure)")


if __name__ == "__main__":
    main()
