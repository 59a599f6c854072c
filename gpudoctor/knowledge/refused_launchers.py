"""What launchers refuse in their own options, or take and then do something else: a row for each check of theirs.

DeepSpeed 0.19, launcher/runner.py and multinode_runner.py (validate_args of each backend); accelerate 1.15,
commands/launch.py and utils/launch.py; horovod 0.28, runner/launch.py; Open MPI 4.1, orte and opal's help texts;
composer 0.32, cli/launcher.py; colossalai 0.5, cli/launcher; lightning 2.6, fabric/cli.py; flux-core 0.87, cli/base.py;
torchx 0.7, components/dist.py; ray 2.9 to 2.50, dashboard_sdk.py.
Values that are not among those of a list are in `lint/rules/launcher_values.py`, whole tables of SLURM in
`schedulers/slurm_values.py`.

`when` is an expression of gpudoctor.lint.conditions over the launcher's options, with `_` for each hyphen; `hosts` is
the number of hosts in the hostfile that it names.
"""

from msgspec import Struct


class RefusedStart(Struct, frozen=True):
    launcher: str
    when: str
    says: str
    fix: str
    is_silent: bool = False
    """It is taken, and something else is done than is written."""


_LIMITED = "launcher in ('openmpi', 'mpich', 'impi', 'mvapich')"

_PER_RESOURCE = "told(tasks_per_node) or told(tasks_per_core) or told(gpus_per_node) or told(cores)"

REFUSED_STARTS = (
    RefusedStart(
        "flux", f"({_PER_RESOURCE}) and (told(ntasks) or told(cores_per_task) or told(gpus_per_task))",
        "Per-resource options can't be used with per-task options",
        "Write --nodes with --tasks-per-node and --gpus-per-node, or -n with -c and -g.",
    ),
    RefusedStart(
        "flux", "told(gpus_per_node) and not told(nodes)", "ValueError: --gpus-per-node requires --nodes",
        "Add --nodes=N.",
    ),
    RefusedStart(
        "flux", "told(tasks_per_node) and told(tasks_per_core)",
        "Do not specify both the number of tasks per node and per core", "Leave one of them out.",
    ),
    RefusedStart(
        "torchx", "told(script) and told(m)", "ValueError: exactly one of --script and -m must be specified",
        "Leave one of --script and -m out.",
    ),
    RefusedStart(
        "torchx", "told(gpu) and gpu > 0 and not told(h) and ranks_of_j > gpu",
        "The scheduler gives a node fewer GPUs than -j starts ranks on it: invalid device ordinal",
        "Write --gpu as large as the second number of -j.",
    ),
    RefusedStart(
        "ray job submit", "told(runtime_env) and told(runtime_env_json)",
        "Only one of --runtime-env and --runtime-env-json can be provided", "Put both into one of them.",
    ),
    RefusedStart(
        "deepspeed", f"({_LIMITED}) and (told(include) or told(exclude))",
        "ValueError: this backend does not support worker include/exclusion",
        "Leave the hosts out of the hostfile instead, or take --launcher pdsh.",
    ),
    RefusedStart(
        "deepspeed", "launcher == 'slurm' and told(include)",
        "srun: unrecognized option '--include': DeepSpeed up to 0.19 hands it on as it is",
        "Leave the hosts and slots out of the hostfile instead, or take --launcher pdsh.",
    ),
    RefusedStart(
        "deepspeed", f"({_LIMITED}) and (told(num_nodes) or told(num_gpus))",
        "ValueError: this backend does not support limiting num nodes/gpus",
        "Write a hostfile with the hosts and slots that are meant, or take --launcher pdsh.",
    ),
    RefusedStart(
        "deepspeed", "no_ssh and not told(node_rank)",
        "AssertionError: Launching training without ssh, but --node_rank is not set correctly",
        "Add --node_rank=0 on the first host of the hostfile, 1 on the next one, and so on.",
    ),
    RefusedStart(
        "deepspeed", "no_ssh and node_rank >= hosts",
        "AssertionError: Launching training without ssh, but --node_rank is not set correctly",
        "Count the hosts of the hostfile from 0.",
    ),
    RefusedStart(
        "deepspeed", "elastic_training and not told(master_addr)",
        "AssertionError: Master Addr is required when elastic training is enabled", "Add --master_addr=HEAD.",
    ),
    RefusedStart(
        "deepspeed", "elastic_training and no_local_rank",
        "AssertionError: --no_local_rank argument is not supported in Elastic training", "Take --no_local_rank out.",
    ),
    RefusedStart(
        "accelerate", "no_python and module", "ValueError: --module and --no_python cannot be used together",
        "Keep one of the two.",
    ),
    RefusedStart(
        "accelerate", "multi_gpu and gpu_ids >= 0 and num_machines == 1",
        "ValueError: Less than two GPU ids were configured and tried to run on multiple GPUs",
        "Name two GPUs or more, or write gpu_ids: all.",
    ),
    RefusedStart(
        "accelerate", "num_processes == -1",
        "ValueError: You need to manually pass in `--num_processes` using this config yaml", "Add --num_processes.",
    ),
    RefusedStart(
        "accelerate", "tpu and no_python", "ValueError: --no_python cannot be used with TPU launcher",
        "Take --no_python out.",
    ),
    RefusedStart(
        "accelerate", "use_parallelism_config and not use_fsdp and not told(config_file)",
        "ValueError: You cannot use `--use_parallelism_config` without `--use_fsdp` and `--fsdp_version=2`",
        "Add --use_fsdp --fsdp_version 2.",
    ),
    RefusedStart(
        "accelerate", "use_parallelism_config and use_fsdp and fsdp_version == 1",
        "ValueError: You cannot use `--use_parallelism_config` without `--use_fsdp` and `--fsdp_version=2`",
        "Write --fsdp_version 2.",
    ),
    RefusedStart(
        "accelerate", "use_fsdp and fsdp_cpu_ram_efficient_loading and fsdp_sync_module_states == False",
        "ValueError: When using `--fsdp_cpu_ram_efficient_loading` set `--fsdp_sync_module_states` to `True`",
        "Write --fsdp_sync_module_states true.",
    ),
    RefusedStart(
        "accelerate", "told(zero_stage) and not use_deepspeed and not told(config_file)",
        "DeepSpeed's options are passed over without --use_deepspeed: it trains without ZeRO", "Add --use_deepspeed.",
        True,
    ),
    RefusedStart(
        "accelerate", "told(fsdp_sharding_strategy) and not use_fsdp and not told(config_file)",
        "FSDP's options are passed over without --use_fsdp: it trains with DDP", "Add --use_fsdp.", True,
    ),
    RefusedStart(
        "horovodrun", "(told(hosts) or told(hostfile)) and not told(np) and not told(min_np) and not told(config_file)",
        "error: the following arguments are required: -np/--num-proc", "Add -np with the number of all processes.",
    ),
    RefusedStart(
        "horovodrun", "told(hosts) and told(hostfile)",
        "error: argument -hostfile/--hostfile: not allowed with argument -H/--hosts", "Keep one of the two.",
    ),
    RefusedStart(
        "horovodrun", "told(host_discovery_script) and (told(hosts) or told(hostfile))",
        "error: argument --host-discovery-script: not allowed with argument -H/--hosts", "Keep one of them.",
    ),
    RefusedStart(
        "horovodrun", "gloo and mpi", "error: argument --mpi: not allowed with argument --gloo", "Keep one of the two.",
    ),
    RefusedStart(
        "horovodrun", "min_np > max_np", "it waits for more slots than it may use, until --elastic-timeout",
        "Write --min-np no larger than --max-np.", True,
    ),
    RefusedStart(
        "horovodrun", "min_np > np", "it waits for --min-np slots before it starts -np processes",
        "Write --min-np no larger than -np.", True,
    ),
    RefusedStart(
        "mpirun", "mca_btl_tcp_if_include and mca_btl_tcp_if_exclude",
        "Two mutually-exclusive MCA variables were specified", "Keep one of the two.",
    ),
    RefusedStart(
        "mpirun", "mca_oob_tcp_if_include and mca_oob_tcp_if_exclude",
        "Two mutually-exclusive MCA variables were specified", "Keep one of the two.",
    ),
    RefusedStart(
        "composer", "world_size < nproc", "ValueError: world_size cannot be less than nproc",
        "Write the number of all processes for --world_size.",
    ),
    RefusedStart(
        "composer", "not told(base_rank) and node_rank * nproc + nproc > world_size",
        "ValueError: Cannot initialize processes for node: all processes must have smaller rank than the world_size",
        "Count nodes from 0: --node_rank is less than --world_size / --nproc.",
    ),
    RefusedStart(
        "composer", "world_size > nproc and not told(base_rank) and not told(node_rank)",
        "ValueError: In a multi-node environment, at least one of node_rank and base_rank must be provided"
        " (NODE_RANK of the environment counts)", "Add --node_rank, another on each node.", True,
    ),
    RefusedStart(
        "composer", "world_size > nproc and not told(master_port)",
        "ValueError: In a multi-node environment, master_port is required (MASTER_PORT of the environment counts)",
        "Add --master_port, the same on all nodes.", True,
    ),
    RefusedStart(
        "composer", "module_mode and command_mode",
        "ValueError: Either `command_mode` or `module_mode` should be set, but not both", "Keep one of the two.",
    ),
    RefusedStart(
        "colossalai", "(told(host) or told(hostfile) or told(master_addr)) and not told(nproc_per_node)",
        "--nproc_per_node did not receive any value: it ends, with status 0", "Add --nproc_per_node.",
    ),
    RefusedStart(
        "colossalai", "told(host) and told(hostfile)",
        "hostfile and hosts are mutually exclusive: it says so and takes the hostfile", "Keep one of the two.", True,
    ),
    RefusedStart(
        "colossalai", "told(num_nodes) and not told(hostfile)",
        "--num_nodes counts hosts of a hostfile; without one it starts on this machine alone", "Add --hostfile.", True,
    ),
    RefusedStart(
        "colossalai", "told(include) and told(exclude)",
        "--include and --exclude are mutually exclusive, only one can be used", "Keep one of the two.",
    ),
    RefusedStart(
        "colossalai", "(told(host) or told(hostfile)) and master_addr == 'localhost'",
        "torchrun on each host takes itself for the head: they wait for each other", "Write the first host's name.",
    ),
    RefusedStart(
        "fabric", "num_nodes > 1 and not told(main_address)",
        "--main-address is 127.0.0.1 then: each node waits for itself", "Add --main-address, the first node's address.",
    ),
    RefusedStart(
        "fabric", "node_rank >= num_nodes", "ranks are counted from 0: torchrun's node rank is out of range",
        "Count nodes from 0.",
    ),
)  # fmt: skip
