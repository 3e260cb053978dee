"""COVID-19 MLIA with judgement distributions."""
