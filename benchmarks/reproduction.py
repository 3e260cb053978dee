"""How near do our figures come to the papers', and where do they differ?

    python benchmarks/reproduction.py --experiments DIR [--page PAGE ...]
    python benchmarks/reproduction.py --list [--page PAGE ...]

Writes docs/reproduction/PAGE.md, all pages by default, and the figures of the pages,
from what `pipelines.experiment` left in DIR/NAME for each experiment NAME. What has not
been run is said on the page, with its command. The text of a page is in
benchmarks/papers/PAGE.md.in. --list writes nothing, but prints the experiments of the
pages whose data are at hand: on each line a name, and the flags that make it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from papers import pages  # noqa: E402

DOCS = pathlib.Path(__file__).parents[1] / "docs"


def main() -> None:
    """Writes the pages that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--experiments",
        type=pathlib.Path,
        default=pathlib.Path("models/experiments"),
        help="directory of the experiments' directories",
    )
    parser.add_argument(
        "--page", action="append", help="name of a page; may be given several times"
    )
    parser.add_argument(
        "--docs", type=pathlib.Path, default=DOCS, help="directory of the documentation"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the experiments and their flags"
    )
    arguments = parser.parse_args()
    try:
        wanted = {
            page: pages.template(page) for page in arguments.page or pages.names()
        }
        if arguments.list:
            for page in wanted:
                for job in pages.jobs(page):
                    print(job.name, job.flags)
            return
        out = arguments.docs / "reproduction"
        out.mkdir(parents=True, exist_ok=True)
        figures = arguments.docs / "figures" / "reproduction"
        writer = pages.Writer(arguments.experiments, figures, out)
    except ValueError as error:
        sys.exit(str(error))
    wrong = []
    for page, template in wanted.items():
        try:
            text = writer.page(template)
        except ValueError as error:  # The other pages may be right.
            wrong.append(str(error))
            continue
        path = out / f"{page}.md"
        path.write_text(text, encoding="utf-8")
        print(path)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
