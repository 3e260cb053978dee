"""What --help prints: an example, the flags that most users need, then all others."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from absl import flags

from pipelines.flags import wording

WIDTH = 88
GROUPS = ("data", "model", "loss", "training", "evaluation", "run")
_WANTED = ("-?", "-h", "-help", "--help", "-helpshort", "--helpshort")
_END = (
    "--flagfile=FILE reads flags from a file; later flags override earlier ones. "
    "--helpfull also lists the flags of absl."
)


def is_wanted(arguments: Sequence[str]) -> bool:
    """Tells whether a command line asks for help.

    Examples:
        >>> is_wanted(["--seed=1", "-h"]), is_wanted(["--", "-h"])
        (True, False)
    """
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(argument in _WANTED for argument in before)


def page(about: str, most_used: Sequence[str], flag_values: flags.FlagValues) -> str:
    """Returns the help of a command.

    Args:
        about: what it does, with an example.
        most_used: names of the flags that come first.
        flag_values: its flags.
    """
    own = {
        flag.name: flag
        for module, several in flag_values.flags_by_module_dict().items()
        if module.startswith(("pipelines.", "__main__")) or "/pipelines/" in module
        for flag in several
    }
    sections = [about.strip()]
    if most_used:
        sections.append(_section("most used", [own[name] for name in most_used]))
    left = [flag for name, flag in own.items() if name not in most_used]
    titles = [wording.group(flag.name) or "this command" for flag in left]
    others = [title for title in dict.fromkeys(titles) if title not in GROUPS]
    for group in (*others, *GROUPS):
        members = [flag for flag, title in zip(left, titles) if title == group]
        if members:
            sections.append(_section(group, members))
    return "\n\n".join([*sections, textwrap.fill(_END, WIDTH)])


def _section(title: str, several: Sequence[flags.Flag]) -> str:
    return "\n".join([f"{title.capitalize()}:", *map(_entry, several)])


def _entry(flag: flags.Flag) -> str:
    """Returns the entry of a flag."""
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    text = " ".join(flag.help.partition(";\n    repeat this option")[0].split())
    if flag.default not in (None, [], (), ""):
        text += f" (default: {str(flag.default_as_str)[1:-1].replace(',', ', ')})"
    return textwrap.fill(
        f"{name}: {text}",
        WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
