"""Packaging of tfr_ext; what needs no code is in pyproject.toml."""

import pathlib
import runpy
import shutil

import setuptools
from setuptools.command import build_py

ROOT = pathlib.Path(__file__).parent
VERSION = runpy.run_path(str(ROOT / "tfr_ext" / "version.py"))["__version__"]

# TensorFlow Ranking 0.5.5 pins tensorflow<2.16, which Python 3.12 and later cannot
# have. What works there pip cannot resolve: docs/guide/installing.md says how to.
BEFORE_3_12 = "; python_version < '3.12'"

EXTRAS = "beam datasets docs gbm gpu serving table test text".split()


class BuildWithConfigs(build_py.build_py):
    """Puts configs/ into the wheel, where --flagfile finds its files by name."""

    def run(self) -> None:
        """Builds, and copies configs/ unless the package is used where it lies."""
        super().run()
        if not self.editable_mode:
            target = pathlib.Path(self.build_lib) / "pipelines" / "configs"
            shutil.copytree(ROOT / "configs", target, dirs_exist_ok=True)


def requirements(name: str) -> list[str]:
    """Returns the lines of a file in requirements/."""
    return (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()


setuptools.setup(
    version=VERSION,
    packages=setuptools.find_packages(
        include=["tfr_ext", "tfr_ext.*", "pipelines", "pipelines.*"]
    ),
    package_data={"tfr_ext": ["py.typed", "text/code_points.npz"]},
    cmdclass={"build_py": BuildWithConfigs},
    entry_points={"console_scripts": ["tfr-ext=pipelines.start.console:main"]},
    python_requires=">=3.10,<3.14",
    install_requires=[
        "absl-py",
        "matplotlib",
        "numpy",
        "scipy",
        # Training writes its logs, and TensorFlow 2.21 no longer brings it.
        "tensorboard",
        "tensorflow>=2.15,<2.22",
    ],
    extras_require={
        "tfr": [
            f"tensorflow>=2.15.1,<2.16{BEFORE_3_12}",
            f"tensorflow-ranking==0.5.5{BEFORE_3_12}",
            f"numpy<2{BEFORE_3_12}",
        ],
        **{name: requirements(name) for name in EXTRAS},
    },
)
