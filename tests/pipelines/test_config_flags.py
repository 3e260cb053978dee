"""Flags are made of settings: their defaults, ranges, groups, help and messages."""

import ast
import dataclasses
import pathlib
import re
import shlex

import pytest
from absl import flags

from pipelines.client.server_scorer import ServerConfig
from pipelines.experiments import cell_work
from pipelines.flags import config_flags, wording
from pipelines.start import failures
from pipelines.start.command import GROUPS
from tests.commands import ROOT, run_command
from tests.training.changed_settings import OTHER
from tfr_ext.core.settings import places, setting
from tfr_ext.gbm import GbmConfig
from tfr_ext.runs import run_file
from tfr_ext.training import (
    EvaluationConfig,
    ExportConfig,
    FusionConfig,
    RankConfig,
    TrainingConfig,
)


@dataclasses.dataclass(frozen=True)
class Warmer(TrainingConfig):
    """Training with one more setting: all that a flag costs."""

    warmth: float = setting(0.5, "How warm; see `batch_size`.", group="run", low=0.0)


def test_one_field_is_a_flag_with_its_range_help_and_line_in_the_file():
    values = flags.FlagValues()
    config_flags.define(Warmer, flag_values=values)
    values(["x", "--warmth=2", "--batch_size=3", "--model=mlp"])
    config = config_flags.read(Warmer, values)
    assert (config.warmth, config.batch_size, config.num_epochs) == (2.0, 3, 50)
    assert "--warmth=2.0" in run_file.lines(config)
    assert values["warmth"].help == "How warm; see --batch_size."
    assert wording.group("warmth") == "run"
    with pytest.raises(flags.Error, match="--warmth=-1"):
        values(["x", "--warmth=-1"])
    with pytest.raises(ValueError, match="`warmth` must be a finite number >= 0"):
        Warmer(warmth=-1)


def test_every_line_of_a_run_is_a_flag_that_gives_its_settings(tmp_path):
    for config in (OTHER, TrainingConfig()):
        path = tmp_path / "flags.cfg"
        path.write_text(run_file.of_training(config, "0" * 64))
        assert cell_work.parse([f"--flagfile={path}"]).settings == config


# How the values of a setting can be written, right and wrong, by kind.
FORMS = {
    "boolean": ["", "=true", "=True", "=T", "=1", "=f", "=0", "=FALSE", "=yes", "=2"],
    "integer": ["=3", "= 3 ", "=03", "=+3", "=1_0", "=3.0", "=1e1", "=\u0663", "=x"],
    "number": ["=1", "=1.0", "=1e0", "=.5", "= 1 ", "=1_0", "=nan", "=inf", "=\u0663"],
    "integers": ["=1", "=1,2", "=1, 2", "=1_0", "=1.0", "=", "=a"],
    "numbers": ["=1", "=.5,1", "=0, 1", "=1_0", "=nan", "=", "=a"],
    "repeated": ["=os:getcwd", "=os:getcwd\n--{key}=", "=\n--{key}=os:getcwd"],
    "parameters": ["=alpha=2", "=alpha=1\n--{key}=\n--{key}=topn=3", "=a=x", "=a"],
    "schedules": ["=alpha:linear:5", "=alpha:linear:5\n--{key}=", "=a"],
    "texts": ["=", "=map,mrr", '="map","mrr"'],
    "paths": ["=a.txt", "=a.txt,b.txt", '="a,b.txt"'],
    "path": ["=a", "=a b"],
    "choice": ["={choice}", "=nothing"],
    "text": ["=a", "=a=b"],
}


def _read(reader, *arguments):
    """What a reader gives, or only that it refuses."""
    try:
        return reader(*arguments)
    except (ValueError, flags.Error):
        return "refused"


def _settings_of_a_command(text):
    return cell_work.parse(text.split("\n")).settings


def _settings_of_a_run(text):
    return run_file.settings(text, TrainingConfig)


@pytest.mark.parametrize("place", places(TrainingConfig), ids=lambda place: place.key)
def test_a_finished_run_is_read_as_its_command_was(place):
    """Every setting, in every form: the same value, or refused by both."""
    about = place.about
    choice = (about.choices or [""])[-1]
    suffixes = [x.format(key=place.key, choice=choice) for x in FORMS[about.kind]]
    lines = [f"--{place.key}{suffix}" for suffix in suffixes]
    if about.kind == "boolean":
        off = f"--no{place.key}"
        lines += [off, f"{off}\n--{place.key}", f"--{place.key}\n{off}", f"{off}=1"]
    for text in lines:
        by_command = _read(_settings_of_a_command, text)
        assert by_command == _read(_settings_of_a_run, text), text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("`batch_size` must be", "--batch_size must be"),
        ("`hidden_sizes=(8, 4)`, `list_size=3`", "--hidden_sizes=8,4, --list_size=3"),
        ("`overwrite=True`", "--overwrite"),
        ("`export_model=False`", "--noexport_model"),
        ("`head='grades'` or `head`", "--head=grades or --head"),
        ("`params['alpha']=2`", "--loss_param=alpha=2"),
        ("`params['from_logits']=False`", "--loss_param=from_logits=False"),
        ("`schedules['alpha']='linear:2'`", "--loss_schedule=alpha:linear:2"),
        ("`lambda_weight_params['topn']`", "--lambda_weight_param=topn"),
        ("`train` writes, `synthetic_*`", "pipelines.train writes, --synthetic_*"),
        ("`model_dir='/a b/c'` has", "--model_dir=/a b/c has"),
        ("`alpha` and `float_features` stay", "`alpha` and `float_features` stay"),
    ],
)
def test_arguments_become_flags(text, told):
    config_flags.learn(TrainingConfig)
    assert wording.with_flag_names(text) == told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--loss_param=gain=cubic"], "--loss_param=gain must be one of"),
        (["--loss_param=aplha=2"], "(--loss_param= drops those before it.)"),
        (["--max_padding=0.5"], "--max_padding must be 0 or at least 1"),
        (["--dropout=2"], "--dropout must be"),
        (["--head=score", "--grade_values=0,1"], "--grade_values has no meaning with "),
        (["--loss_param=reduction=none"], "--loss_param=reduction=none: training se"),
        (["--feature_transforms=a,b"], "--feature_transforms=a,b: "),
        (["--optimizer=adma"], "--optimizer=adma: "),
    ],
)
def test_wrong_settings_are_told_as_flags(given, told):
    from tfr_ext.training import training_checks

    with pytest.raises(ValueError) as error:
        training_checks.check(cell_work.parse(given).settings)
    message = failures.explain(error.value, {})
    assert told in message and "`params" not in message


def strings(path):
    """The texts of a module but for its docstrings."""
    tree = ast.parse(path.read_text())
    docs = [
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and ast.get_docstring(node) is not None
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node not in docs:
                yield node.value


def test_the_library_speaks_of_no_flag_and_of_no_command():
    known = {
        name
        for kind in (
            TrainingConfig,
            GbmConfig,
            EvaluationConfig,
            ExportConfig,
            RankConfig,
        )
        for place in places(kind)
        for name in (place.key, f"no{place.key}")
    }
    # The format of a file that is a flag file.
    exempt = ROOT / "tfr_ext" / "runs" / "run_file.py"
    texts = {
        path: list(strings(path))
        for path in pathlib.Path(ROOT / "tfr_ext").rglob("*.py")
        if path != exempt
    }
    assert len(texts) > 100 and sum(map(len, texts.values())) > 3000
    for path, several in texts.items():
        for text in several:
            named = set(re.findall(r"--(\w+)", text)) & known
            assert not named and "pipelines." not in text, (path, text)


@pytest.mark.parametrize("asked", ["--help", "-h", "--helpshort"])
@pytest.mark.parametrize(
    "command", ["train", "train_gbm", "evaluate", "export", "fuse", "rank"]
)
def test_help_has_an_example_the_most_used_flags_and_all_by_group(command, asked):
    done = run_command(f"pipelines.{command}", asked, check=False)
    assert done.stderr == "" and max(map(len, done.stdout.splitlines())) <= 88
    example = done.stdout.index(f"\npython -m pipelines.{command} --")
    titles = re.findall(r"(?m)^(\w[\w ]*):$", done.stdout)
    kinds, most_used, own = {
        "train": ([TrainingConfig], 10, []),
        "train_gbm": ([GbmConfig], 10, []),
        "evaluate": ([EvaluationConfig], 10, []),
        "fuse": ([FusionConfig], 6, []),
        "export": ([ExportConfig], 5, []),
        "rank": ([RankConfig, ServerConfig], 10, ["Server"]),
    }[command]
    everything = [place for kind in kinds for place in places(kind)]
    groups = {place.about.group for place in everything}
    assert titles == [
        *("Most used", *own),
        *(group.capitalize() for group in GROUPS if group in groups),
    ]
    first, *others = re.split(r"(?m)^\w[\w ]*:$", done.stdout[example:])[1:]
    assert len(re.findall(r"(?m)^  --", first)) == most_used
    listed = re.findall(r"(?m)^  --(?:\[no\])?(\w+)", done.stdout)
    assert sorted(listed) == sorted(place.key for place in everything)
    assert len(others) == len(titles) - 1 and "`" not in first


def test_help_of_the_other_commands():
    for command, title in (("prepare", "Data"), ("experiment", "Experiment")):
        done = run_command(f"pipelines.{command}", "--help", check=False)
        for text in (
            f"python -m pipelines.{command} --",
            "\nMost used:",
            f"\n{title}:",
        ):
            assert text in done.stdout, command
        assert "(default: 1)" in done.stdout


def test_flags_are_written_as_a_shell_takes_them():
    lines = run_file.lines(OTHER)
    assert shlex.split(shlex.join(lines)) == lines
    assert len(lines) == len(set(lines)) > 50
