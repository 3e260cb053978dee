"""The pages of docs/reproduction: the papers' figures, ours, and what is said of them.

`published.json` has the figures of the papers, `*.md.in` are the pages as they are
written, with placeholders where figures stand. See `pages.py` for the placeholders.
"""
