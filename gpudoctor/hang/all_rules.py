"""The modules of rules, in one place; their order decides nothing."""

from types import ModuleType

from gpudoctor.hang.causes import (
    collective_divergence,
    collective_gpu,
    collective_groups,
    collective_recorder,
    end_teardown,
    ranks_gone,
    start_clock,
    start_gpus,
    start_master,
    start_network,
    start_settings,
    start_world,
    training_away,
    training_gil,
    training_kernel,
)

MODULES: tuple[ModuleType, ...] = (
    start_clock,
    start_gpus,
    start_master,
    start_network,
    start_settings,
    start_world,
    ranks_gone,
    collective_recorder,
    collective_divergence,
    collective_gpu,
    collective_groups,
    training_away,
    training_gil,
    training_kernel,
    end_teardown,
)
"""Each exports `RULES`."""
