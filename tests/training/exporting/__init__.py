import pytest

pytestmark = [pytest.mark.stack_b]
