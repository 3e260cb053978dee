"""Settings of a preparation, besides those of its data."""

from __future__ import annotations

import dataclasses

from tfr_ext.core.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class PreparationConfig(Settings):
    """Where shards go, how large they are, and who writes them."""

    output_dir: str | None = setting(
        None,
        "Directory that gets the shards and their manifest.json, on any file system "
        "that TensorFlow knows.",
        group="preparation",
        kind="path",
    )
    shard_megabytes: float = setting(
        64.0,
        "About how much text, or how many features, a shard is made of. The shards of "
        "`dataset='elwc'` are its files.",
        group="preparation",
        low=1e-6,
    )
    overwrite: bool = setting(
        False,
        "Start anew in an `output_dir` that has other shards.",
        group="preparation",
    )
    beam_args: tuple[str, ...] = setting(
        (),
        "An option of Apache Beam, such as --beam_args=--runner=FlinkRunner. "
        "Repeatable. With any, Beam does the work, else processes of this machine.",
        group="preparation",
        kind="repeated",
    )
    num_workers: int | None = setting(
        None,
        "Processes of this machine that work at a time; one for each core if left out.",
        group="preparation",
        kind="integer",
        low=1,
    )

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ValueError: if they do not fit each other.
        """
        super().__post_init__()
        if self.beam_args and self.num_workers:
            raise ValueError(
                "`num_workers` is for work without Beam. Give Beam's runner an option "
                "of its own, such as --beam_args=--direct_num_workers=8."
            )
