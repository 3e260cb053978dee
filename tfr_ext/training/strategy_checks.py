"""Which settings do not go with a strategy."""

from __future__ import annotations

from typing import Any

from tfr_ext.core.settings import given


def check(config: Any) -> None:
    """Checks the settings of a `TrainingConfig` that do not go with every strategy.

    Args:
        config: the settings.

    Raises:
        ValueError: if one does not go with that which is given.
    """
    name, told, wrong = config.strategy, given("strategy", config.strategy), ""
    numbers = f"`gpus={','.join(map(str, config.gpus))}`"
    if name == "parameter_server" and config.loss.loss_diagnostics:
        wrong = f"{given('loss_diagnostics', True)}: workers return no gradients"
    if name == "parameter_server" and config.mixed_precision == "float16":
        wrong = (
            f"{given('mixed_precision', config.mixed_precision)}, which needs a "
            "scaled loss. 'bfloat16' does not"
        )
    compiled = "jit_compile" if config.jit_compile else "jit_compile_loss"
    if name == "parameter_server" and getattr(config, compiled):
        wrong = f"{given(compiled, True)}: XLA reaches no variables on other machines"
    if name == "none" and len(config.gpus) > 1:
        wrong = f"{numbers}: it trains on one. Take `strategy='mirrored'`"
    if len({*config.gpus}) < len(config.gpus):
        wrong = f"{numbers}, which names a GPU twice"
    if wrong:
        raise ValueError(f"{told} does not go with {wrong}.")
