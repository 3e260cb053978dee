from tests import helpers

helpers.need("tensorflow_ranking")
