"""Cuts a file of LETOR text into folds, as the LETOR collections have them.

    python benchmarks/make_folds.py FILE DIR

The queries are dealt to five parts in the order of the file. Fold k has parts k, k+1
and k+2 (counted cyclically) in DIR/Foldk/train.txt, k+3 in vali.txt and k+4 in
test.txt. Lines are copied as they are.
"""

from __future__ import annotations

import argparse
import pathlib

NUM_FOLDS = 5
PARTS = {"train": (0, 1, 2), "vali": (3,), "test": (4,)}


def main() -> None:
    """Writes the folds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    arguments = parser.parse_args()
    write_folds(arguments.file, arguments.directory)


def write_folds(source: pathlib.Path, directory: pathlib.Path) -> None:
    """Writes the folds of a file.

    Args:
        source: the file of LETOR text.
        directory: where the folders of the folds go.

    Raises:
        ValueError: if a line has no query, or there are fewer queries than folds.
    """
    queries: dict[str, list[str]] = {}
    with source.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split(maxsplit=2)
            if not fields:
                continue
            if len(fields) < 2 or not fields[1].startswith("qid:"):
                raise ValueError(f"{source}:{number}: expected 'LABEL qid:NAME ...'.")
            queries.setdefault(fields[1], []).append(line)
    if len(queries) < NUM_FOLDS:
        raise ValueError(
            f"{source}: expected at least {NUM_FOLDS} queries. Found: {len(queries)}."
        )
    groups = list(queries.values())
    for fold in range(NUM_FOLDS):
        target = directory / f"Fold{fold + 1}"
        target.mkdir(parents=True, exist_ok=True)
        for name, parts in PARTS.items():
            with (target / f"{name}.txt").open("w", encoding="utf-8") as file:
                for part in parts:
                    for group in groups[(fold + part) % NUM_FOLDS :: NUM_FOLDS]:
                        file.writelines(group)


if __name__ == "__main__":
    main()
