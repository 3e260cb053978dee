import pytest

from tests import helpers

pytestmark = [pytest.mark.stack_b]
helpers.need("tensorflow_ranking")
