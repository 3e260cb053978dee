import pytest

from tests import helpers

pytestmark = [pytest.mark.any_keras]
helpers.need("lightgbm", "catboost")
