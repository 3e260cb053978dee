"""What all tests of LETOR text share."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes bytes to a file and returns its path."""

    def write_file(content: bytes, name: str = "train.txt") -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write_file
