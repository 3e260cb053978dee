"""Finds the builder of TensorFlow Datasets (TFDS) for the name of a data set."""

from __future__ import annotations

import importlib
import re
from typing import Any

from tfr_ext.core import checks

# The module beside this file that has the builder, and its class.
COLLECTIONS = {
    "covid_mlia": ("covid_mlia", "CovidMlia"),
    "istella": ("local_archives", "Istella"),
    "letor4": ("letor_folds", "Letor4"),
    "mslr_web": ("letor_folds", "MslrWeb"),
    "ohsumed": ("letor_folds", "Ohsumed"),
    "yahoo_ltrc": ("local_archives", "YahooLtrc"),
}
_INSTALL = (
    "`pip install tensorflow-datasets==4.9.10 importlib_resources`, and with "
    "TensorFlow 2.15 also `pip install tensorflow-metadata==1.17.3`"
)


def import_tfds() -> Any:
    """Returns `tensorflow_datasets`; an ImportError says how to install it."""
    try:
        tfds = importlib.import_module("tensorflow_datasets")
        # TFDS needs this when a data set is first used, and pip does not know.
        importlib.import_module("importlib_resources")
    except ImportError as error:
        raise ImportError(
            f"tensorflow_datasets cannot be imported ({error}). Install it: {_INSTALL}."
        ) from error
    # After an error in its own import, it remains as an empty module.
    if not hasattr(tfds, "load"):
        raise ImportError(
            "tensorflow_datasets was imported as an empty module, which happens if "
            "the version of tensorflow-metadata does not fit. Install both again: "
            f"{_INSTALL}."
        )
    return tfds


def names() -> list[str]:
    """Returns the names of the data sets that can be prepared from local files.

    Examples:
        >>> "letor4/mq2008_fold1" in names()
        True
    """
    import_tfds()
    return [
        f"{collection}/{config}"
        for collection in COLLECTIONS
        for config in _builder_class(collection).builder_configs
    ]


def builder(name: str, data_dir: str | None = None) -> Any:
    """Returns the builder of a data set, prepared or not.

    Args:
        name: one of `names()`, or any other data set that TFDS finds by that name and
            that has `float_features`, `label` and `query_id`.
        data_dir: where TFDS keeps prepared data; its own default if None.

    Returns:
        A `tfds.core.DatasetBuilder`.

    Raises:
        ImportError: If TFDS is missing.
        ValueError: If there is no such data set, or it is not one for ranking.

    Examples:
        >>> builder("ohsumed/fold2").info.features["float_features"].shape
        (None, 45)
    """
    tfds = import_tfds()
    collection, _, config = name.partition("/")
    if collection in COLLECTIONS:
        found = _builder_class(collection)
        if config not in found.builder_configs:
            raise _unknown(name)
        return found(config=config, data_dir=data_dir)
    if not name or ":" in name:  # TFDS would look for a namespace over the network.
        raise _unknown(name)
    try:
        found = tfds.builder(name, data_dir=data_dir, try_gcs=False)
    except ValueError as error:
        raise _unknown(name) from error
    features = found.info.features or {}
    missing = {"float_features", "label", "query_id"} - set(features)
    if missing:
        raise ValueError(
            f"{name!r} of TensorFlow Datasets is not for ranking: it has no "
            f"{' and no '.join(sorted(missing))}. Its features are: "
            f"{', '.join(sorted(features))}."
        )
    return found


def _builder_class(collection: str) -> Any:
    module, name = COLLECTIONS[collection]
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)


def _unknown(name: str) -> ValueError:
    collection = name.partition("/")[0]
    known = names()
    if collection in COLLECTIONS:
        known = [one for one in known if one.startswith(f"{collection}/")]
    return ValueError(
        f"There is no data set {name!r}{checks.near(name, known)} The known names are: "
        f"{_abbreviated(known)}."
    )


def _abbreviated(known: list[str]) -> str:
    """Joins names, with one `fold1..5` for five folds."""
    short = [one.replace("fold1", "fold1..5") for one in known]
    return ", ".join(one for one in short if not re.search("fold[2-5]$", one))
