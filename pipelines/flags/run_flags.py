"""Which run the flags of training make, and the flag files that reproduce it."""

from __future__ import annotations

from absl import flags

from pipelines.flags import shared_flags, training_flags

FLAGS = flags.FLAGS

# Flags that say how to run, not what: another value is not another run.
_NOT_PART_OF_A_RUN = (
    "checkpoint_epochs",
    "draw_curves",
    "export_model",
    "manual_dir",
    "model_dir",
    "overwrite",
    "verbose",
)
_ALWAYS_TOLD = ("seed",)
_COMMAND = "python -m pipelines.train"
_DATA = "# The data that it read: SHA-256 "
_WHERE_DATA_IS = ("data_dir", "train_path", "valid_path", "test_path")


def as_flag_file(data: str) -> str:
    """Returns the text of a flag file with the present value of every own flag.

    Args:
        data: the digest of the data.
    """
    return (
        "\n".join(
            [
                f"# Runs again by: {_COMMAND} --flagfile=THIS_FILE "
                "--model_dir=ANOTHER_DIRECTORY",
                f"{_DATA}{data}",
                *_own_flags().values(),
            ]
        )
        + "\n"
    )


def is_of_training(flag_file: str) -> bool:
    """Tells whether a text is one that `as_flag_file` returned."""
    return flag_file.startswith(f"# Runs again by: {_COMMAND} ")


def data_digest(flag_file: str) -> str | None:
    """Returns the digest that a flag file has; older ones have none."""
    for line in flag_file.splitlines():
        if line.startswith(_DATA):
            return line[len(_DATA) :]
    return None


def differences(flag_file: str) -> list[str]:
    """Compares the flags with those of an earlier run.

    Args:
        flag_file: text that `as_flag_file` returned then.

    Returns:
        A line for each flag that differs, with both values.
    """
    then: dict[str, list[str]] = {}
    for line in flag_file.splitlines():
        if line.startswith("--"):
            name = line.lstrip("-").partition("=")[0]
            then.setdefault(name, []).append(line)
    now = {name: text.splitlines() for name, text in _own_flags().items()}
    # A switch that is off is written --noNAME.
    spelled = {f"no{name}": name for name in now}
    then = {spelled.get(name, name): lines for name, lines in then.items()}
    return [
        f"{' '.join(then.get(name, ['(not set)']))} then, "
        f"{' '.join(now.get(name, ['(not set)']))} now"
        for name in dict.fromkeys([*then, *now])
        if name not in _NOT_PART_OF_A_RUN and then.get(name) != now.get(name)
    ]


def data_source() -> tuple[str, ...]:
    """Returns how the flags are written that say which data is read."""
    names = [
        *(*_WHERE_DATA_IS, "dataset", "manual_dir", "missing_value", "num_features"),
        *(name for name in FLAGS if name.startswith(("elwc_", "stream", "synthetic_"))),
    ]
    seed = [str(shared_flags.data_seed(FLAGS))] if FLAGS.dataset == "synthetic" else []
    return (*(FLAGS[name].serialize() for name in names), *seed)


def has_random_data() -> bool:
    """Tells whether the lists that are evaluated depend on a seed."""
    own_files = FLAGS.dataset == "text" or (
        FLAGS.dataset == "elwc" and FLAGS.data_dir is None
    )
    held_out = own_files and not (FLAGS.valid_path and FLAGS.test_path)
    cut = FLAGS.list_size is not None or FLAGS.eval_list_size is not None
    return FLAGS.dataset == "synthetic" or held_out or cut


def identity() -> dict[str, str]:
    """Returns how each flag is written that makes a run what it is.

    Those that say where its data and its files are, or how it is shown, do not; nor do
    those that have their defaults, so that a new flag does not make it another run. The
    seed always does: its default was another once.
    """
    aside = {*_NOT_PART_OF_A_RUN, *_WHERE_DATA_IS}
    return {
        flag.name: flag.serialize()
        for flag in _flags()
        if flag.name not in aside
        and (flag.value != flag.default or flag.name in _ALWAYS_TOLD)
    }


def given() -> list[str]:
    """Returns the flags of training that a command line or a flag file has set."""
    texts = [flag.serialize() for flag in _flags() if flag.present]
    return [line for text in texts for line in text.splitlines()]


def _own_flags() -> dict[str, str]:
    """Returns how each flag of the project that has a value is written."""
    written = {flag.name: flag.serialize() for flag in _flags()}
    return {name: text for name, text in written.items() if text}


def _flags() -> list[flags.Flag]:
    """Returns the flags of data, metrics and training."""
    defined = FLAGS.flags_by_module_dict()
    return [*defined[shared_flags.__name__], *defined[training_flags.__name__]]
