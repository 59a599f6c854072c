"""All rules: each module of `causes/` lists its own as RULES. Their order decides nothing."""

import importlib
import pkgutil

from gpudoctor.hang import causes

RULES: tuple[causes.HangRule, ...] = tuple(
    rule
    for module in pkgutil.iter_modules(causes.__path__, f"{causes.__name__}.")
    for rule in importlib.import_module(module.name).RULES
)
