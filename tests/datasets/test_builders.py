"""The builders, by the test case that TFDS has for all of its own."""

import pathlib
import tempfile

import tensorflow_datasets as tfds

from tests import layouts
from tfr_ext.datasets import covid_mlia, letor_folds, local_archives


class WithFiles:
    """Gives a test case the files that `write_files` writes."""

    SPLITS = layouts.SPLITS

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.EXAMPLE_DIR = directory.name
        cls.write_files(pathlib.Path(directory.name))
        super().setUpClass()


class Letor4Test(WithFiles, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = letor_folds.Letor4
    BUILDER_CONFIG_NAMES_TO_TEST = [
        "mq2008_fold5",
        "mq2007agg_fold2",
        "mq2008list_fold4",
    ]

    @staticmethod
    def write_files(directory):
        for path, num_features in (
            ("MQ2008/Fold5", 46),
            ("MQ2007-agg/Fold2", 21),
            ("MQ2008-list/Fold4", 46),
        ):
            layouts.write_fold(directory / path, num_features)


class OhsumedTest(WithFiles, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = letor_folds.Ohsumed
    BUILDER_CONFIG_NAMES_TO_TEST = ["fold1", "null_fold5"]

    @staticmethod
    def write_files(directory):
        names = {split: f"{split}.txt" for split in layouts.SPLITS}
        older = {
            "train": "trainingset.txt",
            "vali": "validationset.txt",
            "test": "testset.txt",
        }
        for path, own in (
            ("QueryLevelNorm/Fold1", older),
            ("Feature-null/Fold5", names),
        ):
            layouts.write_fold(directory / "OHSUMED" / path, 45, own)


class MslrWebTest(WithFiles, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = letor_folds.MslrWeb
    BUILDER_CONFIG_NAMES_TO_TEST = ["10k_fold1", "30k_fold5"]

    @staticmethod
    def write_files(directory):
        for path in ("MSLR-WEB10K/Fold1", "MSLR-WEB30K/Fold5"):
            layouts.write_fold(directory / path, 136, comments=False)


class CovidMliaTest(WithFiles, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = covid_mlia.CovidMlia
    BUILDER_CONFIG_NAMES_TO_TEST = ["fold2"]
    SPLITS = {"train": 3, "vali": 1, "test": 2}

    @staticmethod
    def write_files(directory):
        layouts.write_covid(directory)


class YahooTest(WithFiles, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = local_archives.YahooLtrc

    @staticmethod
    def write_files(directory):
        layouts.write_archive(
            directory / "ltrc_yahoo.tar.bz2",
            {
                f"{prefix}.{theirs}.txt": layouts.letor_text(split, 699, False)
                for prefix in ("set1", "set2")
                for split, theirs in zip(layouts.SPLITS, ("train", "valid", "test"))
            },
        )


class IstellaTest(WithFiles, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = local_archives.Istella
    BUILDER_CONFIG_NAMES_TO_TEST = ["s", "x"]

    @staticmethod
    def write_files(directory):
        for archive, folder in (("s-letor", "sample/"), ("X", "")):
            layouts.write_archive(
                directory / f"istella-{archive}.tar.gz",
                {
                    f"{folder}{split}.txt": layouts.letor_text(split, 220, False)
                    for split in layouts.SPLITS
                },
            )
