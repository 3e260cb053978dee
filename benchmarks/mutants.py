"""Do the tests find faults? Twenty drawn ones, each put into a copy of the tree.

    pip install mutmut==3.8.1
    python benchmarks/mutants.py draw --seed 38 > benchmarks/mutants.csv
    python benchmarks/mutants.py run [--only 3,7] [--own] [--together]

`draw` takes mutmut's changes to the bodies of all functions that leave texts alone and
stay within a line, and two kinds of its own: a call left out (`f(x)` becomes `x`, as a
mask or an escape would be forgotten) and a statement left out (as a lock would be).
Folders take turns in an order that the seed gives, and so do the kinds; the seed also
chooses within a folder and kind.

`run` prints for each fault whether the tests of its own folder find it or, failing
that, any other, with the first test that did. `--own` stops at the own folder.
`--together` puts all the faults into one copy and prints all that fails: one run for
those that their own folders do not find.
"""

import argparse
import csv
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
LIST = ROOT / "benchmarks" / "mutants.csv"
COLUMNS = ("path", "line", "kind", "before", "after")
KINDS = ("operator", "number", "argument", "call", "statement")


def _candidates(path: pathlib.Path) -> list[dict]:
    """All changes to one line of a function's body that a kind has in a module."""
    import libcst as cst
    from libcst import metadata
    from mutmut.mutation import mutators

    wrapper = metadata.MetadataWrapper(cst.parse_module(path.read_text()))
    positions = wrapper.resolve(metadata.PositionProvider)
    module = wrapper.module
    lines = module.code.splitlines()
    changes: list[tuple[str | None, Any, Any]] = []
    for node in _inside_functions(module):
        if isinstance(node, cst.Call) and node.args and not node.args[0].keyword:
            changes.append(("call", node, node.args[0].value))
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            changes.append(("statement", node, cst.Name("pass")))
        for types, operator in mutators.mutation_operators:
            if isinstance(node, types):
                changes += [(_kind(node, x), node, x) for x in operator(node)]
    found = []
    for kind, node, changed in changes:
        at = positions[node]
        if kind is None or at.start.line != at.end.line:
            continue
        line = lines[at.start.line - 1]
        code = module.code_for_node(changed)
        after = line[: at.start.column] + code + line[at.end.column :]
        found.append(
            dict(path=str(path.relative_to(ROOT)), line=at.start.line, kind=kind)
            | dict(before=line.strip(), after=after.strip())
        )
    return [x for x in found if x["before"] != x["after"]]


def _inside_functions(node, inside=False):
    """The nodes of functions' bodies, without what annotates or decorates them."""
    import libcst as cst

    for child in node.children:
        if isinstance(child, cst.Annotation | cst.Decorator | cst.Parameters):
            continue
        if inside:
            yield child
        yield from _inside_functions(child, inside or isinstance(node, cst.FunctionDef))


def _kind(original, mutated) -> str | None:
    import libcst as cst

    if isinstance(original, cst.BaseNumber):
        return "number"
    if isinstance(original, cst.Call) and isinstance(mutated, cst.Call):
        return "argument" if len(mutated.args) < len(original.args) else None
    texts = cst.BaseString | cst.FormattedString | cst.Assign | cst.AnnAssign
    return None if isinstance(original, texts | cst.Lambda) else "operator"


def draw(seed: int, count: int) -> list[dict]:
    """Draws faults: folders and kinds in turn."""
    rng = random.Random(seed)
    folders = sorted(
        {
            x.parents[0]
            for top in ("tfr_ext", "pipelines")
            for x in (ROOT / top).glob("*/*.py")
        }
        | {ROOT / "pipelines"}
    )
    rng.shuffle(folders)
    faults = []
    for number, folder in enumerate(folders[:count]):
        files = sorted(
            folder.glob("*.py")
            if folder == ROOT / "pipelines"
            else folder.rglob("*.py")
        )
        everything = [x for path in files for x in _candidates(path)]
        kind = KINDS[number % len(KINDS)]
        faults.append(
            rng.choice([x for x in everything if x["kind"] == kind] or everything)
        )
    return faults


def put_in(tree: pathlib.Path, fault: dict) -> None:
    """Changes a line of a tree. A ValueError says that the line is not there."""
    path = tree / fault["path"]
    lines = path.read_text().splitlines(keepends=True)
    same = [i for i, x in enumerate(lines) if x.strip() == fault["before"]]
    if not same:
        raise ValueError(f"{fault['path']} has no line {fault['before']!r}.")
    i = min(same, key=lambda i: abs(i + 1 - int(fault["line"])))
    lines[i] = lines[i].replace(fault["before"], fault["after"])
    path.write_text("".join(lines))


def _failures(tree: pathlib.Path, where: list[str], *arguments: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "logical", "--dist", "loadfile"]
        + ["-p", "no:cacheprovider", "-m", "not grid", *arguments, *where],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    lines = result.stdout.splitlines()
    failed = [x for x in lines if x.startswith(("FAILED ", "ERROR "))]
    if result.returncode not in (0, 1, 2, 5):
        raise RuntimeError(result.stdout[-3000:] + result.stderr[-3000:])
    return failed or (lines[-1:] if result.returncode == 2 else [])


def _own_tests(tree: pathlib.Path, path: str) -> list[str]:
    """A module's docstrings, and the tests of the folder that is named like its own."""
    top, *rest = pathlib.Path(path).parts
    folder = f"tests/{rest[0] if top == 'tfr_ext' else 'pipelines'}"
    return [path, folder] if (tree / folder).is_dir() else [path]


def main() -> None:
    """Draws faults, or runs the tests on them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("draw", "run"))
    parser.add_argument("--seed", type=int, default=38)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--only", help="Numbers of faults, from 1, with commas.")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--own", action="store_true", help="Only their own folder's.")
    arguments = parser.parse_args()
    if arguments.action == "draw":
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(draw(arguments.seed, arguments.count))
        return
    with LIST.open() as file:
        faults = dict(enumerate(csv.DictReader(file), 1))
    if arguments.only:
        faults = {int(x): faults[int(x)] for x in arguments.only.split(",")}
    groups = [faults] if arguments.together else [{n: x} for n, x in faults.items()]
    for group in groups:
        for number, fault in group.items():
            print(f"{number:>3} {fault['path']}:{fault['line']} {fault['kind']}")
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder) / "tree"
            subprocess.run(["git", "clone", "-q", str(ROOT), str(tree)], check=True)
            for fault in group.values():
                put_in(tree, fault)
            started = time.monotonic()
            by, failed = "own", []
            if not arguments.together:
                failed = _failures(tree, _own_tests(tree, fault["path"]), "-x")
            if not failed and not arguments.own:
                by, failed = (
                    "all",
                    _failures(tree, [], *([] if arguments.together else ["-x"])),
                )
            seconds = time.monotonic() - started
        print(f"    {by if failed else 'not found'}, {seconds:.0f} s", flush=True)
        for line in failed if arguments.together else failed[:1]:
            print(f"    {line[:150]}", flush=True)


if __name__ == "__main__":
    main()
