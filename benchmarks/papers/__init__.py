"""The tables and figures of docs/reproduction, which its pages include.

`published.json` has the papers' figures; `experiments.json` lists the experiments of
each page, and what is shown of them.
"""
