"""The rules, one family a module; `every_rule()` in `gpudoctor.lint.rule` finds them."""
