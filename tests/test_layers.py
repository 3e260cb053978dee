"""The shape of the tree: layers, no cycles, short chains, small folders and files.

An import counts wherever it stands, in functions and under TYPE_CHECKING too, and a
folder's `__init__` is a module as any other.
"""

import ast
import collections
import functools
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# What imports only from itself, its own line and lines above.
LAYERS = (
    ("version", "_stack"),
    ("core",),
    ("objectives",),
    ("relaxations", "transport"),
    ("metrics",),
    ("losses",),
    ("data",),
    ("evaluation",),
    ("models", "text"),
    ("datasets",),
    ("settings",),
    ("sources",),
    ("runs",),
    ("serving",),
    ("scoring",),
    ("training",),
    ("estimators", "gbm", "tfr"),
    ("tfr_ext",),  # tfr_ext/__init__.py
    ("pipelines",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
# Folders whose files have names of their own, or those of the other's counterparts.
PAIRS = (
    ("tfr_ext/losses", "tfr_ext/relaxations"),
    ("tfr_ext/data/letor", "tfr_ext/data/elwc"),
)

# What a run, an export or a build writes, and the one run that a test reads.
OUTPUTS = re.compile(
    r".*(\.pb|\.keras|\.index|\.data-\d+-of-\d+|\.tfevents\..*|\.trec|\.tsv|\.pyc|\.whl"
    r"|/metrics\.json|/flags\.cfg|/curves\.png)"
)
FIXTURE = "tests/training/half_a_run/"


def modules():
    """The paths of all modules, by name."""
    found = {}
    for package in ("tfr_ext", "pipelines"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(x for x in parts if x != "__init__")] = path
    return found


MODULES = modules()


def imports(tree):
    """Yields the names of our own modules that the nodes of a tree import."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in full]
        yield from (name for name in names if name in MODULES)


@functools.cache
def graph():
    """The modules that each module imports; what a package has of itself left out."""
    return {
        module: {
            name
            for name in imports(ast.parse(path.read_text()))
            if name != module and not module.startswith(f"{name}.")
        }
        for module, path in MODULES.items()
    }


def layer(module):
    """The folder or module at the top that a module belongs to."""
    package, *rest = module.split(".")
    return rest[0] if package == "tfr_ext" and rest else package


def chains():
    """The longest chain of imports from each module down; fails at a cycle."""
    longest, below = {}, []

    def chain(module):
        assert module not in below, f"a cycle: {[*below, module]}"
        if module not in longest:
            below.append(module)
            chains = [chain(name) for name in sorted(graph()[module])]
            longest[module] = [module, *max(chains, key=len, default=[])]
            below.pop()
        return longest[module]

    for module in MODULES:
        chain(module)
    return longest


def files(folder):
    return [p for p in folder.glob("*.py") if p.name != "__init__.py"]


def test_every_folder_has_a_layer():
    assert {layer(module) for module in MODULES} <= {*HEIGHT}


@pytest.mark.parametrize("name", HEIGHT)
def test_imports_point_down(name):
    up = {
        f"{module} imports {other}"
        for module in MODULES
        if layer(module) == name
        for other in graph()[module]
        if HEIGHT[layer(other)] > HEIGHT[name]
    }
    assert not up


def test_no_cycle():
    chains()


def test_the_longest_chain_of_imports_has_15_modules():
    longest = max(chains().values(), key=len)
    assert len(longest) <= 15, longest


def test_one_module_lets_threads_of_tensorflow_call_python():
    """It waits for them when the process ends, which would hang otherwise."""
    call = re.compile(r"\b(from_generator|(py|numpy)_function)\(")
    found = [name for name, path in MODULES.items() if call.search(path.read_text())]
    assert found == ["tfr_ext.data.batches.batch_datasets"]


def test_no_function_imports_our_own_modules():
    """That would hide a cycle. Optional packages are imported where they are used."""
    found = [
        f"{path.relative_to(ROOT)}: {function.name}"
        for path in MODULES.values()
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        and any(imports(function))
    ]
    assert not found


@pytest.mark.parametrize(
    ("folder", "most"),
    [("tfr_ext", 5), ("pipelines", 10)],
    ids=["tfr_ext", "pipelines"],
)
def test_few_files_stand_at_the_top(folder, most):
    assert len(files(ROOT / folder)) <= most


def test_no_folder_has_more_than_18_files():
    folders = {path.parent for path in MODULES.values()}
    assert not [str(folder) for folder in folders if len(files(folder)) > 18]


def test_no_file_has_more_than_450_lines():
    long = {
        str(path.relative_to(ROOT))
        for path in MODULES.values()
        if len(path.read_text().splitlines()) > 450
    }
    assert not long


def test_no_tracked_file_is_an_output():
    """Not one that is ignored either, though it was added."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    git = functools.partial(subprocess.check_output, cwd=ROOT, text=True)
    tracked = git(["git", "ls-files"]).splitlines()
    assert "README.md" in tracked
    assert not [
        name
        for name in tracked
        if OUTPUTS.fullmatch(name) and not name.startswith(FIXTURE)
    ]
    assert not git(["git", "ls-files", "--cached", "--ignored", "--exclude-standard"])


def test_files_share_a_name_only_as_counterparts():
    """A loss and its relaxation, or the same part of two formats."""
    folders = collections.defaultdict(list)
    for path in MODULES.values():
        if path.name != "__init__.py":
            folders[path.name].append(path.parent.relative_to(ROOT).as_posix())
    shared = {name: places for name, places in folders.items() if len(places) > 1}
    pairs = [sorted(pair) for pair in PAIRS]
    assert not {
        n: places for n, places in shared.items() if sorted(places) not in pairs
    }


def test_tests_import_from_no_test_file():
    """What two of them need is in a module of its own, such as `tests.helpers`."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            last = [name.rpartition(".")[2] for name in names]
            ours = names[0].partition(".")[0] == "tests"
            wrong = [x for x in last if x == "conftest" or x.startswith("test_")]
            assert not (ours and wrong), f"{path.relative_to(ROOT)} imports {wrong}"
