"""fabric run (Lightning 2.2 and later), lightning run model (1.8 to 2.x): source fabric/cli.py of Lightning 2.6."""

from gpudoctor.lint.launchers.grammar import Grammar, table

_OPTIONS = """
accelerator =
strategy =
devices =
num-nodes =
node-rank =
main-address =
main-port =
precision =
help
"""

FABRIC = Grammar(table(_OPTIONS, both_dashes=True), prefixes=False)
MODULES = ("lightning.fabric.cli", "lightning_fabric.cli")
