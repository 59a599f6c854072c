"""The same for programs, files beside them and manifests: what well-kept repositories have is not accused."""

from pathlib import Path

import pytest

from gpudoctor.lint import asked
from gpudoctor.lint.beside import with_beside, with_modules
from gpudoctor.lint.several import judged
from gpudoctor.lint.starts import SourceFile

_UTILS = (
    "import argparse\nfrom .reports import table\n"
    "def options():\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--model')\n"
    "    {}\n    return parser.parse_args()\n"
)
_REPORTS = (
    "import argparse\ndef table(rows): return rows\n"
    "def options():\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--log')\n"
    "    return parser.parse_args()\n"
)
_ASKS = "from lab.utils import options\nprint(options())\n"
_GAN = (
    "import argparse\nimport deepspeed\ndef made():\n    parser = argparse.ArgumentParser()\n"
    "    parser.add_argument('--lr', type=float)\n    return parser\nparser = made()\n{}args = parser.parse_args()\n"
)
_JOINS = (
    "import os\nimport torch.distributed as dist\ndef join():\n    {}\n"
    "    os.environ['RANK'] = os.environ['SLURM_PROCID']\n    os.environ['WORLD_SIZE'] = os.environ['SLURM_NTASKS']\n"
    "    dist.init_process_group('nccl', init_method='env://')\n"
)
_MPIRUN = "mpirun -np 8 --bind-to none python fit.py\n"
_BY_MPI = "import os\nimport deepspeed\n{}\nrank = int(os.environ['LOCAL_RANK'])\n"
_SIZES = '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 4}'
_LTD = "torchrun --standalone --nproc-per-node=1 fit.py --per_device_train_batch_size 4 {} ds.json\n"
_PEFT = (
    "import functools\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    "from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy\nfrom peft import get_peft_model\n"
    "from policies import wrapped\nnet = get_peft_model(net, config)\n"
    "net = FSDP(net, auto_wrap_policy={}, use_orig_params=False)\n"
)
_FLAG = (
    'MORE=""\nif [ -n "$1" ]; then MORE="{}$1"; fi\npython fit.py --shuffle $MORE\n'
    "torchrun --standalone --nproc-per-node=2 fit.py --shuffle $MORE\n"
)
_NESTED = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --exclusive\nsrun --ntasks-per-node=1 bash -c '{}'\n"

CASES: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "two files of a program have a parser": (
        "V08",
        {"run.sh": "python fit.py --model a\n", "fit.py": _ASKS, "lab/utils.py": _UTILS.format("pass"),
         "lab/reports.py": _REPORTS, "lab/__init__.py": ""},
        {"run.sh": "python fit.py --modell a --x\n", "fit.py": _ASKS, "lab/utils.py": _UTILS.format("pass"),
         "lab/reports.py": "def table(rows): return rows\n", "lab/__init__.py": ""},
    ),
    "DeepSpeed adds its options to what a function made": (
        "V08",
        {"run.sh": "python fit.py --deepspeed_config ds.json\n",
         "fit.py": _GAN.format("parser = deepspeed.add_config_arguments(parser)\n")},
        {"run.sh": "python fit.py --deepspeed_config ds.json\n", "fit.py": _GAN.format("")},
    ),
    "a file of the program sets the head": (
        "E15",
        {"run.sh": "srun -n 4 python fit.py\n", "fit.py": "from joins import join\njoin()\n",
         "joins.py": _JOINS.format("os.environ.setdefault('MASTER_ADDR', 'n1')")},
        {"run.sh": "srun -n 4 python fit.py\n", "fit.py": "from joins import join\njoin()\n",
         "joins.py": _JOINS.format("pass")},
    ),
    "DeepSpeed asks MPI for the ranks": (
        "M01",
        {"run.sh": _MPIRUN, "fit.py": _BY_MPI.format("deepspeed.init_distributed()")},
        {"run.sh": _MPIRUN, "fit.py": _BY_MPI.format("")},
    ),
    "the file is DeepSpeed's own": (
        "W07",
        {"run.sh": _LTD.format("--deepspeed_config"), "fit.py": "import deepspeed\n", "ds.json": _SIZES},
        {"run.sh": _LTD.format("--deepspeed"), "fit.py": "import transformers\n", "ds.json": _SIZES},
    ),
    "a policy of the program's own": (
        "T70",
        {"fit.py": _PEFT.format("wrapped(net)")},
        {"fit.py": _PEFT.format("functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})")},
    ),
    "what is left of a flag": (
        "V17", {"run.sh": _FLAG.format("--owner "), "fit.py": ""}, {"run.sh": _FLAG.format(""), "fit.py": ""},
    ),
    "a step that a check may start": (
        "S46",
        {"run.sh": _NESTED.format("if has_images; then srun --ntasks-per-node=1 --exclusive python fit.py; fi")},
        {"run.sh": _NESTED.format("srun --ntasks-per-node=1 --exclusive python fit.py")},
    ),
    "a model that is no variable of the hub's": (
        "E07", {"run.sh": "HF_MODEL=--own\ntorchrun --standalone --nproc-per-node=2 fit.py\n"},
        {"run.sh": "HF_HOME=/data/hf\ntorchrun --standalone --nproc-per-node=2 fit.py\n"},
    ),
    "Hydra's variables in one word": (
        "Q13", {"run.sh": "mpirun -n 8 -ppn 4 -env A=1 -env UCX_TLS=tcp python fit.py\n"},
        {"run.sh": "nohup A=1 torchrun --standalone --nproc-per-node=2 fit.py\n"},
    ),
}  # fmt: skip


def accused_of(folder: Path, files: dict[str, str]) -> set[str]:
    """The codes of errors and warnings of the first file, with those that lie beside it; and what was not judged."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    main = str(folder / next(iter(files)))
    start = with_beside(SourceFile(main, *asked.text_and_codec(main, main)))
    done = judged(with_modules(start), asked.asked_facts(None, None, None, None), corrections=False)
    told = {problem.code for problem in done.report.problems if problem.severity != "info"}
    return told | {each for each in done.report.unknown if "a bug in gpudoctor" in each}


@pytest.mark.parametrize(("code", "good", "bad"), CASES.values(), ids=CASES)
def test_it_is_not_accused(code: str, good: dict[str, str], bad: dict[str, str], tmp_path: Path) -> None:
    assert code not in accused_of(tmp_path / "good", good)
    assert code in accused_of(tmp_path / "bad", bad)


def test_the_schema_of_a_kind_is_no_pod(tmp_path: Path) -> None:
    """Of a CustomResourceDefinition the fields `containers` and `priority` are descriptions of fields."""
    schema = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  versions:\n    - schema:\n"
        "        openAPIV3Schema:\n          properties:\n            spec:\n              properties:\n"
        "                template:\n                  properties:\n                    spec:\n"
        "                      properties:\n                        containers: {type: array, items: {type: object}}\n"
        "                        priority: {type: integer, description: torchrun's own}\n"
    )
    assert "K14" not in accused_of(tmp_path, {"crd.yaml": schema})


def test_tests_of_nccl_without_words_cost_no_rule(tmp_path: Path) -> None:
    told = accused_of(tmp_path, {"run.sh": "#!/bin/bash\n#SBATCH --gpus-per-node=8\nsrun -n 8 all_reduce_perf\n"})
    assert not any("a bug" in each for each in told)
