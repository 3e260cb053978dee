"""What the tests of faults share."""

import pytest

from tests.faults.disturbed import Disk


@pytest.fixture(scope="session")
def disk(tmp_path_factory):
    """A folder with the inputs of all commands."""
    return Disk(tmp_path_factory.mktemp("disk"))
