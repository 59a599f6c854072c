"""deepspeed: source launcher/runner.py of DeepSpeed 0.19. Its long options have underscores only."""

from gpudoctor.lint.launchers.grammar import Grammar, table

_OPTIONS = """
hostfile -H =
include -i =
exclude -e =
num_nodes =
min_elastic_nodes =
max_elastic_nodes =
num_gpus --num_accelerators =
master_port =
master_addr =
node_rank = since deepspeed 0.14.5
launcher =
launcher_args =
module
no_python
no_local_rank
no_ssh since deepspeed 0.14.5
no_ssh_check
force_multi
save_pid
enable_each_rank_log =
autotuning =
elastic_training
bind_cores_to_rank
bind_core_list =
ssh_port =
venv_script =
log_level =
quiet -q
help -h
"""

DEEPSPEED = Grammar(table(_OPTIONS))
MODULES = ("deepspeed.launcher.runner", "deepspeed.launcher.launch")
PROGRAMS = ("deepspeed", "ds", "deepspeed.pt")
