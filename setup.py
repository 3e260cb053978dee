"""Packaging of tfr_ext; what needs no code is in pyproject.toml."""

import pathlib
import runpy

import setuptools

ROOT = pathlib.Path(__file__).parent
VERSION = runpy.run_path(str(ROOT / "tfr_ext" / "version.py"))["__version__"]

setuptools.setup(
    version=VERSION,
    packages=setuptools.find_packages(include=["tfr_ext", "tfr_ext.*", "pipelines"]),
    package_data={"tfr_ext": ["py.typed"]},
    python_requires=">=3.9,<3.12",
    install_requires=[
        "absl-py",
        "matplotlib",
        "numpy<2",
        "tensorflow>=2.15.1,<2.16",
        "tensorflow-ranking==0.5.5",
    ],
    extras_require={
        "test": [
            "mypy",
            "pytest",
            "pytest-xdist",
            "pytrec-eval-terrier",
            "ruff==0.17.5",
            "scikit-learn",
        ],
        "docs": ["mkdocs", "mkdocstrings[python]"],
    },
)
