"""Packaging of tfr_ext; what needs no code is in pyproject.toml."""

import pathlib
import runpy

import setuptools

ROOT = pathlib.Path(__file__).parent
VERSION = runpy.run_path(str(ROOT / "tfr_ext" / "version.py"))["__version__"]


def requirements(name):
    """Returns the lines of a file in requirements/."""
    return (ROOT / "requirements" / f"{name}.txt").read_text().split()


# TensorFlow Ranking pins tensorflow<2.16, which Python 3.12 and later cannot have. What
# works there pip cannot resolve: README.md has the two commands that install it.
STACK_A = "; python_version < '3.12'"

setuptools.setup(
    version=VERSION,
    packages=setuptools.find_packages(
        include=["tfr_ext", "tfr_ext.*", "pipelines", "pipelines.*"]
    ),
    package_data={"tfr_ext": ["py.typed"]},
    python_requires=">=3.9,<3.14",
    install_requires=[
        "absl-py",
        # TensorFlow Datasets 4.9.10 imports it, and does not require it.
        "importlib_resources",
        "matplotlib",
        f"numpy<2{STACK_A}",
        "scipy",
        f"tensorflow>=2.15.1,<2.16{STACK_A}",
        f"tensorflow-datasets>=4.9.3{STACK_A}",
        # Later ones need protobuf 5, which TensorFlow 2.15 does not take.
        f"tensorflow-metadata<1.18{STACK_A}",
        f"tensorflow-ranking==0.5.5{STACK_A}",
    ],
    extras_require={
        "beam": requirements("beam"),
        "test": requirements("test"),
        "docs": requirements("docs"),
    },
)
