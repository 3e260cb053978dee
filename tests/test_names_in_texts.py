"""Files and modules that texts name exist, so that none is forgotten when one moves."""

import pathlib
import re

import pytest

pytestmark = pytest.mark.any_keras

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = "tfr_ext|pipelines|tests|benchmarks|configs|docs|examples|requirements|bazel"
# Neither a pattern nor a place inside of another directory.
PATH = re.compile(rf"(?<![\w./*:-])(?:{FOLDERS})/[\w./-]*\w(?![\w./*{{%-]|\.\w)")
DOTTED = re.compile(r"(?<![\w./-])(?:tfr_ext|pipelines)(?:\.\w+)+")
# Placeholders, and names of protocol buffers.
OTHER = re.compile(r".*NAME.*|.*\.proto")
SETTINGS = [
    *("Makefile", ".ci/run", "BUILD", "MANIFEST.in", "pyproject.toml", "setup.py"),
    *("README.md", "CONTRIBUTING.md", "mkdocs.yml"),
]
TEXTS = {
    "settings": [ROOT / name for name in SETTINGS],
    "pages": [p for p in (ROOT / "docs").rglob("*.md") if p.name != "releases.md"],
    **{
        name: [*(ROOT / name).rglob("*.py")]
        for name in ("tfr_ext", "pipelines", "benchmarks", "examples")
    },
}


def is_path(name, text):
    """Whether a path exists at the top, or beside the text that names it."""
    return any(
        (folder / name).exists() for folder in (ROOT, text.parent, ROOT / "docs")
    )


def is_module(name):
    """Whether a name is that of a module, or of something that a module's text has."""
    path, rest = ROOT, name.split(".")
    while rest and (path / rest[0]).is_dir():
        path = path / rest.pop(0)
    if rest and (path / f"{rest[0]}.py").exists():
        path = path / f"{rest.pop(0)}.py"
    elif path.is_dir():
        path = path / "__init__.py"
    # Classes of metrics are found by name, in no text.
    return not rest or rest[0][0].isupper() or rest[0] in path.read_text()


@pytest.mark.parametrize("kind", TEXTS)
def test_paths_and_modules_exist(kind):
    missing = set()
    for text in TEXTS[kind]:
        content = text.read_text()
        names = {name for name in PATH.findall(content) if not is_path(name, text)}
        names |= {name for name in DOTTED.findall(content) if not is_module(name)}
        missing |= {(text.name, n) for n in names if not OTHER.fullmatch(n)}
    assert not missing


def test_folders_that_may_be_skipped_are_used_by_themselves_only():
    """Without the packages that they need, they cannot be imported."""
    skipped = [
        path.parent.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("__init__.py")
        if "helpers.need(" in path.read_text()
    ]
    assert pathlib.Path("tests/pipelines") in skipped
    wrong = {
        (path.name, ".".join(folder.parts))
        for folder in skipped
        for path in (ROOT / "tests").rglob("*.py")
        if ROOT / folder not in path.parents
        and re.search(rf"\b{re.escape('.'.join(folder.parts))}\b", path.read_text())
    }
    assert not wrong


def test_the_script_is_a_function():
    (script,) = re.findall(
        r"\"tfr-ext=([\w.]+):main\"", (ROOT / "setup.py").read_text()
    )
    assert "\ndef main(" in (ROOT / f"{script.replace('.', '/')}.py").read_text()


def test_pages_and_hooks_of_the_site_exist():
    text = (ROOT / "mkdocs.yml").read_text()
    names = re.findall(r"[\w/-]+\.(?:md|py|css|js)\b", text)
    assert "guide/commands.md" in names and "docs/hooks/home.py" in names
    assert not [name for name in names if not is_path(name, ROOT / "mkdocs.yml")]


def test_each_pattern_of_bazel_has_a_file():
    found = []

    def glob(patterns, exclude=()):
        found.extend(patterns)
        return []

    rules = ("package", "py_library", "py_binary", "py_test", "filegroup")
    known = {rule: lambda **_: None for rule in rules}
    exec((ROOT / "BUILD").read_text(), {**known, "glob": glob})  # As Python reads it.
    assert "configs/**" in found
    assert not [pattern for pattern in found if not any(ROOT.glob(pattern))]
