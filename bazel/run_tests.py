"""Runs one file of tests with pytest, as Bazel asks: run_tests.py FILE [ARGUMENTS]."""

import os
import sys

import pytest


def main() -> int:
    """Returns the exit code of pytest; a filter may leave no test of a file."""
    arguments = ["-p", "no:cacheprovider", *sys.argv[1:]]
    filtered = os.environ.get("TESTBRIDGE_TEST_ONLY")  # --test_filter
    if filtered:
        arguments += ["-k", filtered]
    if "XML_OUTPUT_FILE" in os.environ:
        arguments += ["--junitxml", os.environ["XML_OUTPUT_FILE"]]
    if "TEST_TMPDIR" in os.environ:
        arguments += ["--basetemp", os.path.join(os.environ["TEST_TMPDIR"], "pytest")]
        os.environ.setdefault("HOME", os.environ["TEST_TMPDIR"])
    code = pytest.main(arguments)
    return 0 if filtered and code == pytest.ExitCode.NO_TESTS_COLLECTED else code


if __name__ == "__main__":
    sys.exit(main())
