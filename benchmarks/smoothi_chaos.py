"""Shows where SmoothI's indicators are decided by rounding.

    python benchmarks/smoothi_chaos.py [--out FILE] [--seed N]

The recursion of the definition (Eq. 4) runs in float32, float64 and NumPy's long
double, on lists of 10 and 100 items with scores from 0 to 1: `separate` (uniform),
`close` (five grades, and 1e-3 of noise) and `equal` (five grades). The table and the
figure have, for each alpha, the largest difference of an indicator from the long
double's. The figure also has 1 less the mean indicator of the item of each rank in the
exact sort.
"""

from __future__ import annotations

import argparse
import pathlib

import matplotlib.figure
import numpy as np
import pictures

ALPHAS = 10.0 ** np.arange(0, 8.5, 0.5)
KINDS = ("separate", "close", "equal")
SIZES, LISTS, DELTA = (10, 100), 32, 0.1
OUT = pathlib.Path(__file__).parents[1] / "docs/losses/figures/smoothi_chaos.png"


def make(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    """Returns lists of scores with lowest 0 and highest 1."""
    if kind == "separate":
        scores = rng.random([LISTS, size])
    else:
        scores = rng.integers(0, 5, [LISTS, size]) / 4
        scores += (kind == "close") * 1e-3 * rng.normal(size=scores.shape)
    scores -= scores.min(axis=1, keepdims=True)
    return scores / scores.max(axis=1, keepdims=True)


def smoothi(scores: np.ndarray, alpha: float, dtype: type) -> np.ndarray:
    """Returns the indicators, `[lists, ranks, items]`."""
    logits = dtype(alpha) * scores.astype(dtype)
    product, rows = np.ones_like(logits), []
    for _ in range(scores.shape[1]):
        x = logits * product
        row = np.exp(x - x.max(axis=1, keepdims=True))
        rows.append(row / row.sum(axis=1, keepdims=True))
        product = product * (dtype(1) - dtype(DELTA) - rows[-1])
    return np.stack(rows, axis=1)


def main() -> None:
    """Prints the table and draws the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    figure = matplotlib.figure.Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    print("scores        alpha  lists that differ by .01 (largest) in float32, float64")
    for colour, kind in zip(("C0", "C1", "C2"), KINDS):
        lists = [make(kind, size, rng) for size in SIZES]
        differences: dict[type, list[float]] = {np.float32: [], np.float64: []}
        wrong = []
        for alpha in ALPHAS:
            exact = [smoothi(x, alpha, np.longdouble) for x in lists]
            cells = []
            for dtype, largest in differences.items():
                found = (smoothi(x, alpha, dtype) for x in lists)
                each = [abs(a - b).max(axis=(1, 2)) for a, b in zip(found, exact)]
                each = np.concatenate(each).astype(float)
                largest.append(each.max())
                cells.append(
                    f"{(each > 0.01).sum():3d} of {each.size} ({each.max():.3f})"
                )
            print(f"{kind:9} {alpha:9.3g}  {'  '.join(cells)}")
            ranked = (np.argsort(-x, axis=1)[:, :, np.newaxis] for x in lists)
            own = [np.take_along_axis(a, b, 2) for a, b in zip(exact, ranked)]
            wrong.append(1 - np.mean([float(x.mean()) for x in own]))
        for (dtype, largest), line in zip(differences.items(), ("--", "-")):
            label = f"{kind}, {dtype.__name__}"
            left.loglog(ALPHAS, np.maximum(largest, 1e-17), line, label=label, c=colour)
        if kind != "equal":
            right.semilogx(ALPHAS, wrong, label=kind)
    left.set(xlabel="alpha x range of scores", title="largest difference by rounding")
    right.set(xlabel="alpha x range of scores", title="1 - indicator of the exact rank")
    left.legend(fontsize="xx-small", loc="lower right")
    right.legend(fontsize="x-small")
    pictures.save(figure, arguments.out)


if __name__ == "__main__":
    main()
