"""torchrun and its elder forms.

Source: torch/distributed/run.py and launch.py of torch 1.9 to 2.14 (facts 1.1): torch 2.0 takes hyphens too and knows
--local-addr; before, only underscores. Every option may come from PET_<NAME> as well.
`since` stands where facts 1.1 has read it in the wheels; without it, it is not known since when.
"""

from gpudoctor.lint.launchers.grammar import Grammar, OptionSpec, table
from gpudoctor.lint.model import Option, Setting

_OPTIONS = """
nnodes =
nproc_per_node =
rdzv_backend =
rdzv_endpoint =
rdzv_id =
rdzv_conf =
standalone
max_restarts =
monitor_interval =
start_method =
event_log_handler =
role =
module -m
no_python
run_path
log_dir =
redirects -r =
tee -t =
local_ranks_filter =
duplicate_stdout_filters =
duplicate_stderr_filters =
node_rank =
master_addr =
master_port =
local_addr = since torch 2.0
logs_specs =
numa_binding = since torch 2.9
signals_to_handle = since torch 2.10
shutdown_timeout = since torch 2.12
virtual_local_rank since torch 2.10
help -h
"""
HYPHENS_SINCE = "torch 2.0"


class TorchrunGrammar(Grammar):
    def since(self, spelling: str, spec: OptionSpec) -> str:
        hyphenated = "-" in spelling.lstrip("-")
        return spec.since or (HYPHENS_SINCE if hyphenated and "-" in spec.name else "")


TORCHRUN = TorchrunGrammar(table(_OPTIONS, both_dashes=True))
LAUNCH = TorchrunGrammar(table(_OPTIONS + "use_env\n", both_dashes=True))
"""torch.distributed.launch: torchrun's, and --use_env."""

RUN_MODULES = ("torch.distributed.run", "torch.distributed.elastic_launch", "torchelastic.distributed.launch")
LAUNCH_MODULES = ("torch.distributed.launch", "torch.distributed.launcher")


def of_environment(settings: dict[str, Setting]) -> dict[str, Option]:
    """PET_* variables as options, by the options' names; those that the program does not get are left out."""
    found = {}
    for spec in TORCHRUN.options:
        setting = settings.get("PET_" + spec.name.replace("-", "_").upper())
        if setting is not None and setting.exported:
            found[spec.name] = Option(spec.name, setting.name, setting.word, setting.word.span, since=spec.since)
    return found
