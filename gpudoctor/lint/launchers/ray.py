"""ray job submit [options] -- COMMAND: source dashboard/modules/job/cli.py of Ray 2.9 and later.

Of click: flags have a --no- form, and no option may be shortened.
"""

from gpudoctor.lint.launchers.grammar import Grammar, table

_SUBMIT = """
address =
job-id =
submission-id =
runtime-env =
runtime-env-json =
working-dir =
metadata-json =
entrypoint-num-cpus =
entrypoint-num-gpus =
entrypoint-memory =
entrypoint-resources =
entrypoint-label-selector =
no-wait
verify =
headers =
log-style =
log-color =
verbose -v
"""

SUBMIT = Grammar(table(_SUBMIT), prefixes=False)
