import pytest

pytestmark = [pytest.mark.any_keras]
