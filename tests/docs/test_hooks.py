"""The hooks of the site: what they render, and what makes the build fail.

They need what `make docs` installs.
"""

import importlib
import importlib.util
import pathlib
import pkgutil
import re
import types

import pytest

HOOKS = pathlib.Path(__file__).parents[2] / "docs" / "hooks"


def hook(name, *needed):
    for package in needed:
        pytest.importorskip(package)
    spec = importlib.util.spec_from_file_location(name, HOOKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def config(site):
    root = HOOKS.parents[1]
    return types.SimpleNamespace(
        site_dir=str(site), config_file_path=str(root / "mkdocs.yml")
    )


@pytest.fixture
def formulas():
    module = hook("formulas", "latex2mathml", "mkdocs", "ziamath")
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="page.md"))
    return lambda text: module.on_page_content(text, page=page)


def block(tex):
    return f'<div class="arithmatex">\\[\n{tex}\n\\]</div>'


def test_a_formula_becomes_mathml(formulas):
    found = formulas(block(r"\frac{a_1}{b} &lt; \log x"))
    assert found.startswith('<div class="formula"><math')
    assert "<mfrac>" in found and "<msub>" in found and "&#x0003C;" in found
    assert "arithmatex" not in found and "\\" not in found


@pytest.mark.parametrize(
    "text",
    [
        "<p>$$ a = b $$</p>",
        r"<p>a \frac{1}{2}</p>",
        block(r"\nosuchcommand{a}"),
        block("a &amp; b"),
    ],
)
def test_what_is_no_formula_fails(formulas, text):
    from mkdocs import exceptions

    with pytest.raises(exceptions.PluginError):
        formulas(text)


def test_code_may_have_tex(formulas):
    text = "<pre>\\frac{1}{2} $$</pre>"
    assert formulas(text) == text


@pytest.fixture
def public_names():
    return hook("public_names", "griffe", "mkdocs")


@pytest.fixture
def names(public_names):
    return {
        name: documented
        for name, _, documented in public_names.public_names(HOOKS.parents[1])
    }


def test_public_names_are_those_of_the_code(names):
    import tfr_ext
    from tfr_ext import objectives

    packages = ("data", "losses", "metrics", "models", "relaxations", "training")
    for package in packages:
        for name in getattr(tfr_ext, package).__all__:
            assert f"tfr_ext.{package}.{name}" in names
    for name in objectives.names():
        cls = objectives.of_name(name).__name__
        assert f"tfr_ext.objectives.{cls}" in names
    for name in ("Ranker", "losses.tfr.SoftmaxLoss", "tfr.LossByKey"):
        assert f"tfr_ext.{name}" in names
    assert all(names.values())


def test_dir_lists_what_is_public_and_nothing_of_others():
    import tfr_ext

    found = pkgutil.walk_packages(tfr_ext.__path__, "tfr_ext.")
    names = ["tfr_ext", *(module.name for module in found if module.ispkg)]
    for name in names:
        try:
            package = importlib.import_module(name)
        except ImportError as error:
            assert re.search("ranking|datasets", str(error).lower()), name
            continue
        public, listed = getattr(package, "__all__", ()), dir(package)
        for other in {*public} - {*listed}:
            with pytest.raises(ImportError):  # TensorFlow Ranking's, without it
                getattr(package, other)
        for other in listed:
            value = getattr(package, other)
            home = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            assert (
                other in public or other.startswith("_") or home.startswith("tfr_ext.")
            ), (name, other)


@pytest.mark.parametrize("missing", [None, "tfr_ext.losses.MetricLoss"])
def test_a_public_name_without_an_anchor_fails(public_names, names, missing, tmp_path):
    from mkdocs import exceptions

    anchors = [f'<h2 id="{name}" class="doc">' for name in names if name != missing]
    (tmp_path / "page.html").write_text("\n".join(anchors))
    if missing is None:
        return public_names.on_post_build(config(tmp_path))
    with pytest.raises(exceptions.PluginError, match="losses.MetricLoss has no anchor"):
        public_names.on_post_build(config(tmp_path))


def test_doctests_are_fenced():
    fenced = hook("doctests", "griffe").fenced
    text = "Usage:\n\n>>> f(1)\n2\n\n>>> f(2)\n3\n\nEnd.\n\n    >>> indented"
    begin, end = "Usage:\n\n```pycon\n", "\n```\n\nEnd.\n\n    >>> indented"
    assert fenced(text) == f"{begin}>>> f(1)\n2\n\n>>> f(2)\n3{end}"
    assert fenced(fenced(text)) == fenced(text)


def test_names_break_in_tables_and_flags_stay_whole():
    content = hook("code_breaks").on_page_content
    cell = "<td><code>SmoothILoss_x</code></td>"
    assert content(cell) == "<td><code>SmoothI<wbr>Loss_<wbr>x</code></td>"
    code = "<p><code>SmoothILoss</code></p><pre><code>--a_b</code></pre>"
    assert content(code) == code
    flag = "<code><nobr>--model_</nobr>dir</code>"
    assert content("<code>--model_dir</code>") == flag


def test_old_addresses_lead_to_the_new_ones(tmp_path):
    (tmp_path / "guide").mkdir()
    for name in ("index.html", "404.html", "guide/index.html", "guide/data.html"):
        (tmp_path / name).write_text("page")
    hook("old_addresses").on_post_build(config(tmp_path))
    found = sorted(tmp_path.rglob("index.html"))
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        *("guide/data/index.html", "guide/index.html", "index.html")
    ]
    assert "../data.html" in found[0].read_text()
    assert found[1].read_text() == "page"


@pytest.mark.parametrize(
    "asked",
    [
        '<script src="https://cdn.example/x.js">',
        '<link rel="stylesheet" href="//fonts.example/css">',
        "<img alt=x src=http://example/badge.svg>",
    ],
)
def test_a_page_that_asks_a_server_fails(asked, tmp_path):
    offline = hook("offline", "mkdocs")
    from mkdocs import exceptions

    (tmp_path / "page.html").write_text(
        '<a href="https://example"><link rel="canonical" href="https://example">'
        '<script src="assets/x.js"></script><img src="figures/x.png">'
    )
    offline.on_post_build(config(tmp_path))
    (tmp_path / "other.html").write_text(asked)
    with pytest.raises(exceptions.PluginError, match=r"other.html asks for"):
        offline.on_post_build(config(tmp_path))


def test_fields_of_settings_have_their_default_and_help():
    griffe = pytest.importorskip("griffe")
    module = hook("settings_fields", "griffe")
    extensions = griffe.load_extensions(module.SettingsFields())
    root = HOOKS.parents[1]
    tree = griffe.load("tfr_ext", search_paths=[root], extensions=extensions)
    config = tree["settings.training_config.TrainingConfig"]
    defaults = {x.name: str(x.default) for x in config.parameters}
    assert defaults["data"] == "DataConfig()"
    assert defaults["num_models"].isdigit()
    assert "epochs" in config["num_epochs"].docstring.value


def test_the_first_page_begins_with_the_readme(tmp_path):
    home = hook("home")
    (tmp_path / "README.md").write_text(
        "![A](docs/a.png) [b](docs/b.md#c) [d](E.md) [f](https://g) [h](#i)\n"
    )
    (tmp_path / "index.md").write_text("More.\n")
    page = types.SimpleNamespace(
        file=types.SimpleNamespace(
            src_uri="index.md", abs_src_path=str(tmp_path / "index.md")
        )
    )
    read = types.SimpleNamespace(config_file_path=str(tmp_path / "mkdocs.yml"))
    assert home.on_page_read_source(page, read) == (
        "![A](a.png) [b](b.md#c) d [f](https://g) [h](#i)\nMore.\n"
    )
    page.file.src_uri = "guide/index.md"
    assert home.on_page_read_source(page, read) is None
