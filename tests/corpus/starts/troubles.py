"""Which rules speak of which trouble: the one table between the words of the labels and the codes of the rules.

Written from the labels' words (of tune) and the rules' documentation, before an answer was looked at. A label's rules
are those of every row whose pattern is in its cause; a rule that is written later is added to the row of its trouble.
"""

import re
from functools import cache

TROUBLES = {
    r"num_processes|total of all machines": "C01",
    r"batch script, so on the first node|without srun|on the first node alone|srun is missing|no srun": "S04",
    r"machine_rank|machine 0\b|machine rank": "C02 S02 R01 S17",
    r"SLURM_(?:PROCID|NODEID|LOCALID)": "S02 S17 R01 R02",
    r"single quotes": "S03 E07 V01",
    r"not exported|export is missing": "E07 V01",
    r"\b(?:empty|nothing sets|never set|is not set|unset)\b": "V01 A03 V02 E07",
    r"hostfile": "C04 D01 D02 D03 D06 D08 E11",
    r"\bslots?\b": "D02 D03 M02 G01",
    r"pdsh|passwordless|\bssh\b": "C04 C06 D05",
    r"CUDA_VISIBLE_DEVICE|gpu_ids": "D02 D04 E06 G01 G04 G07 V01",
    r"shm|shared memory": "K04",
    r"localhost|loopback|127\.0": "A01 A09 A10 R05 R07",
    r"MASTER_ADDR|master_addr|address of the head|head's address": "A01 A02 A03 A04 A06 A09 A10 A11 A13 R05 R07 R08",
    r"hostname|own name|each node (?:takes|says) its own": "A10 A13",
    r"IPv6": "A12",
    r"SLURM_LAUNCH_NODE": "A11",
    r"\bport\b": "P01 P02 P03 P04 P05 P06 P07 P08 P09 R05",
    r"endpoint": "R05 R07 R08 P06 A06 A07 A08",
    r"backend": "R08 R07",
    r"rdzv_id|rendezvous id|\bid\b": "R09 S18",
    r"node.?rank|node rank": "R01 R02 R06 S02 S17 E05",
    r"--nnodes|nnodes": "R03 R11 R02 S18 R04",
    r"standalone": "R04",
    r"tasks? a node|tasks-per-node|--ntasks|tasks starts?|each of which starts|each starts a torch|sixteen processes": (
        "S01 S08 S09 S10 S11 S17 G01 R13 G06"
    ),
    r"torchruns? of (?:two|four|eight|\d+)|mpirun|-np\b": "S01 M01 M02 R13 G01",
    r"gpus-per-task|gpu-bind|sees? one GPU": "S07 S12 G03 S08 G06 G01",
    r"one GPU|(?:four|three|two|\d) (?:visible )?GPUs|GPUs? was asked|--gres|have no (?:device|GPU)|has none": (
        "S10 G01 G02 G06 G07 S08"
    ),
    r"num_nodes": "L03 G06",
    r"devices": "S08 G06 S10 G01",
    r"strategy|ddp_spawn|\bdp\b": "L02 L04 L05 L06",
    r"precision": "L07 L05",
    r"Trainer": "L01 L02 L03 G06 S08",
    r"LOCAL_RANK": "E01 G03 S07 V05 E05",
    r"WORLD_SIZE|world.?size": "E02 E04 E09 R11 E05",
    r"plain python|is not set: KeyError|KeyError|launcher is missing": "E04 K01 K02 M01",
    r"\bRANK\b": "E04 E05 E09 M01",
    r"local.?rank": "V05 E05 Q03 E04",
    r"backslash|does not go on|continuation": "Q01",
    r"quote": "Q02 S03",
    r"no blank between|blank is missing|unknown option|no such option|knows no|unrecognized": "V03 Q03 R08 R07",
    r"stands after|behind the script|argument of the (?:recipe|script)|after the (?:script|recipe|program)": "Q03 Q04",
    r"typographic|dash\b": "Q07",
    r"placeholder|<[A-Z_]+>": "Q08",
    r"sudo": "Q06",
    r"background|\bwait is missing|& is missing|one after the other": "Q05 S05",
    r"busy|step": "S05",
    r"sbatch|#SBATCH|header|#!|first command": "S06 S18 S09 S20 S21 S22 S23 S24 S29 H01 H02 H03 H04 H05",
    r"cpus-per-task|one core|binds?|threads|OMP_NUM_THREADS": "S13 M03 G05",
    r"interactive|bash as (?:the )?job name": "S14",
    r"interface|NCCL_SOCKET_IFNAME|GLOO_SOCKET_IFNAME": "E08 E12",
    r"NCCL_": "E08 E10 E11 E12 E13",
    r"-x\b|does not (?:reach|hand on)|other (?:hosts|nodes) do not": "E11",
    r"minimum|elastic|:\d+ nodes|MIN:MAX": "R10",
    r"container.*named|name of the container|container is called": "K03",
    r"operator|PyTorchJob|TrainJob|nprocPerNode|pods?": "K01 K02 K03 K04 R03 A01",
    r"horovod": "M04 M02",
    r"version|since torch|this accelerate|old": "V04 V06 V03 V05 L01 L02 L07 C02",
    r"container|inside the image": "S19 E11",
    r"more nodes|fewer nodes|nodes? (?:is|are) missing|waits for": "R11 S18 R12",
}

LATER = {
    r"batch script, so on the first node|without srun|on the first node|first of the (?:two|\d+) nodes": "H07",
    r"\bport\b": "P09 P10 T27",
    r"local.?rank": "T02 T18 T23 T24 T25 E18 S07 G03 V08",
    r"shm|shared memory": "K05",
    r"plain python|launcher is missing|KeyError": "E15 T07 T19 T03",
    r"\bRANK\b": "E15 T03 T17",
    r"world.?size|WORLD_SIZE": "E16 T05 T19 K19 W01 W02 W07 T17",
    r"tasks? a node|tasks-per-node|--ntasks|tasks starts?|each of which starts": "S32 M05 S30",
    r"one GPU|(?:four|three|two|\d) (?:visible )?GPUs|have no (?:device|GPU)|has none|no GPU": (
        "K13 K06 K01 S32 T23 G08 G11 H06 S06"
    ),
    r"container|image": "K06 K11 K12 K13 K23 K24",
    r"operator|PyTorchJob|TrainJob|JobSet|Job\b|pods?\b": "K07 K08 K09 K14 K15 K16 K17 K18 K19 K20 K21 K22 Q20",
    r"sampler|shuffle|same batches": "T06 T12 T28",
    r"spawn": "T04 T05 T08 T09 T15 T16 T27",
    r"barrier|collective": "T01",
    r"unrecognized|unknown option|no such option|knows no|arguments? that": "V05 V08",
    r"checkpoint": "R14",
    r"\bsignal": "S25",
    r"requeue|rdzv_id|rendezvous id": "S26",
    r"\(dash\)|started by sh\b": "Q11",
    r"minutes|hours": "S22 H04 S31",
    r"\bunits?\b|memory": "S31",
    r"\b[Rr]ay\b": "A15 J01 J02 J03 T20 T29",
    r"horovod": "J04",
    r"\bssh\b": "Q16",
    r"heads|layers|batch size|divisible|multiple of|parallel": "W01 W02 W03 W07",
    r"fp16|bf16": "W05 W06",
    r"carriage|DOS|CRLF": "S29",
    r"one word|in quotes|blank": "Q20 Q21 Q22 Q12 Q13",
}
"""Rules that were written after the table above, by what their documentation says they speak of."""

SEVENTH_OF_SHELLS = {
    r"node.?ranks?|machine.?rank|--rank|\brank \d": "R17 R18 U03",
    r"address of the head|head's address|MASTER_ADDR|\bport\b|rdzv_id|nnodes|num_processes": "R17",
    r"first host|host alone|one host": "H07",
    r"nothing sets|set nowhere|\bempty\b|not set anywhere": "R20",
    r"exclude each other|does not support|at once|at a time": "R19",
    r"no_ssh|launcher": "R19",
    r"\btemplate\b": "S23",
}
"""For the seventh starts of shells and schedulers: from tune's labels and the rules' documentation."""

THIRD_OF_SHELLS = {
    r"only set|SLURM_(?:GPUS|NTASKS)_PER": "V11 V02",
    r"\bslots?\b": "M08",
    r"same GPU|local ranks? \d": "M07 M08",
    r"shell script|for the program": "Q27",
    r"unbound|set -u": "A03 V01",
}
"""For the third starts of shells, SLURM and MPI: from tune's labels and the rules' documentation."""

THIRD_OF_CONFIGS = {
    r"process group|init_process_group": "T35 T36",
    r"local.?rank": "V12",
    r"Accelerator|notebook_launcher": "T31 T46",
    r"text and no number|argparse": "T33",
    r"num_nodes|dictionary": "L03 G06",
    r"NODE_RANK|rank of the process": "T38",
    r"exclude each other|deepspeed and fsdp": "W11",
    r"accumulation|deepspeed_config": "W10",
    r"recipe": "V13",
    r"strategy of a Lightning": "L11",
    r"process_count_per_instance|once for each process|counts the processes": "J09 J12",
    r"instance type|SDK refuses": "J07",
    r"worker pool|replica": "J08",
    r"SKYPILOT": "J10",
    r"NUM_WORKERS|Ray waits": "J11",
    r"reserves no GPU": "K30",
    r"no shell|ENTRYPOINT": "K33 V02",
    r"node.?rank|node rank": "K34 K35",
    r"\bGPUs?\b": "G14 K30 K36",
    r"world.?size|WORLD_SIZE": "T37",
    r"barrier|collective": "T45",
}
"""For the third starts of programs, configurations and services: from tune's labels and the rules' documentation."""


SIXTH_OF_LIBRARIES = {
    r"backend|programs? startup|TF_CONFIG": "T72 T73",
    r"optimizer is made": "T74 C10",
    r"DistributedOptimizer": "T75 T76",
    r"shards? alone|clip_grad_norm_": "U17",
    r"num_processes": "T79",
    r"divides the loss|divides it": "T80",
    r"own ordered sampler|sampler.*order": "T81",
    r"8 bits|8-bit": "T82",
    r"FP16 gradients": "T83",
    r"attention heads": "W15",
}
"""For the sixth starts of libraries: from tune's labels and the rules' documentation."""

SEVENTH_OF_PROGRAMS = {
    r"barrier|collective|gather|reduc|main process": "T54 T90 L15",
    r"out of (?:the|its) (?:loop|epochs)|clock|coin|goes on|catches": "T90",
    r"set_device|device_ids": "T56",
    r"all_reduce|timedelta|broadcast_object_list|IterableDataset|requires? (?:a|no) gradient": "T91",
    r"not defined|rank 0 adds": "T98",
    r"process group": "T84",
    r"\bseed|num_replicas|shards?\b": "T85",
    r"prepare": "T92 T69",
    r"removes|no barrier|half of it": "T86",
    r"no_sync": "T87",
    r"to the CPU and back|replaced in|hooks": "T88",
    r"fully_shard|DTensor": "T89",
    r"unscale|update\(\)": "T93",
    r"waited for": "T94",
    r"tensor-parallel|mesh": "T95",
    r"forward never uses": "T96",
    r"dist\.send|neighbor": "T99",
    r"engine\.backward": "T65",
    r"IterableDataset": "T66",
    r"never divided": "T67",
    r"DALI": "T68",
    r"monitor": "L16",
    r"should_stop": "L17",
    r"map_location": "T59",
    r"gradients are never averaged|trains alone": "T60",
    r"required argument": "T02",
    r"study|trial": "T98",
    r"removes the same|exist_ok|wandb": "T97",
    r"is text|is the text": "T41",
    r"DataParallel, which": "U12",
    r"broadcasts its buffers": "U13",
    r"keys begin": "U14",
    r"optimizer\.step\(\) is called by": "U17",
    r"__getitem__": "U16",
    r"is not given it": "T78",
    r"cuda:0": "L18",
    r"\basserts\b": "V23",
    r"\bthree times\b": "U33",
}
"""For the seventh starts of programs: from tune's labels and the rules' documentation."""


@cache
def patterns() -> list[tuple[re.Pattern[str], list[str]]]:
    """Compiled once: `re` keeps no more than 512, and lint asks more between two starts."""
    tables = (
        *(TROUBLES, LATER, SEVENTH_OF_SHELLS, THIRD_OF_SHELLS, THIRD_OF_CONFIGS, SIXTH_OF_LIBRARIES),
        SEVENTH_OF_PROGRAMS,
    )
    return [
        (re.compile(pattern, re.IGNORECASE if pattern.islower() else 0), codes.split())
        for table in tables
        for pattern, codes in table.items()
    ]


def rules_of(cause: str) -> frozenset[str]:
    """The codes that name this trouble."""
    return frozenset(code for pattern, codes in patterns() if pattern.search(cause) for code in codes)
