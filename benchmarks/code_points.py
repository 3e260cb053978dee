"""What BERT's tokenizer makes of each Unicode code point, as Hugging Face has it.

    PYTHON benchmarks/code_points.py tfr_ext/text/code_points.npz

PYTHON needs NumPy and Hugging Face's `tokenizers` (0.23.3 made the file). The package
reads the file instead of asking Python's `unicodedata`, whose Unicode differs from
version to version.
"""

from __future__ import annotations

import sys

import numpy as np
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

DROPPED, KEPT, SPACE, ALONE, SEVERAL = range(5)
CODE_POINTS, SURROGATES = 0x110000, range(0xD800, 0xE000)


def table(lowercase: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the page of each 256 code points, the pages, and the sequences.

    A value is a kind plus 8 times the distance from the code point to what becomes of
    it: another code point, or a row of the sequences, which zeros fill.
    """
    normalizer = BertNormalizer(lowercase=lowercase)
    divide = BertPreTokenizer().pre_tokenize_str
    values = np.full(CODE_POINTS, DROPPED, np.int32)
    sequences: list[list[int]] = []
    for point in range(CODE_POINTS):
        if point in SURROGATES:
            continue
        found = normalizer.normalize_str(chr(point))
        parts = [part for part, _ in divide(f"a{found}b")]
        if not found:
            continue
        if len(parts) == 2:
            values[point] = SPACE
            continue
        kind, text = (ALONE, parts[1]) if len(parts) == 3 else (KEPT, found)
        if len(parts) > 3 or (len(text) > 1 and kind == ALONE):
            raise ValueError(f"{point:x} becomes {parts}.")
        target = ord(text) if len(text) == 1 else len(sequences)
        if len(text) > 1:
            kind = SEVERAL
            sequences.append([*map(ord, text)])
        values[point] = kind + 8 * (target - point)
    pages, page = np.unique(values.reshape(-1, 256), axis=0, return_inverse=True)
    filled = np.zeros([len(sequences), max(map(len, sequences), default=1)], np.int32)
    for row, sequence in enumerate(sequences):
        filled[row, : len(sequence)] = sequence
    return page.reshape(-1).astype(np.int32), pages, filled


def main() -> None:
    """Writes the file."""
    parts: dict[str, np.ndarray] = {}
    for name, lowercase in (("uncased", True), ("cased", False)):
        arrays = zip(("page", "pages", "sequences"), table(lowercase))
        parts |= {f"{name}_{part}": array for part, array in arrays}
    np.savez_compressed(sys.argv[1], **parts)
    for name, array in parts.items():
        print(name, array.shape)


if __name__ == "__main__":
    main()
