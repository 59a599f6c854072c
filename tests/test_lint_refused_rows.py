"""Rows of what programs refuse: each fires on what it is for, and not on the same start put right."""

import pytest

from tests.lint_cases.judged import errors, job_of

_HF = "torchrun --standalone --nproc_per_node=8 sft.py --output_dir out --per_device_train_batch_size 4 {}\n"
_GRPO = (
    "accelerate launch --multi_gpu --num_processes 6 g.py\n#@ file g.py\nfrom trl import GRPOConfig, GRPOTrainer\n"
    "args = GRPOConfig(output_dir='o', per_device_train_batch_size={}, gradient_accumulation_steps=1)\n"
    "GRPOTrainer(model='m', args=args, reward_funcs=score, train_dataset=data).train()\n"
)
_GPT = (
    "torchrun --standalone --nproc_per_node=8 pretrain_gpt.py --micro-batch-size 1 --tensor-model-parallel-size 2 {}\n"
)
_NEEDED = {"num-layers": 24, "hidden-size": 1024, "num-attention-heads": 16, "max-position-embeddings": 1024}
_ALL = " ".join(f"--{name} {value}" for name, value in _NEEDED.items()) + " --seq-length 1024 "
_DEEPSPEED = (
    "deepspeed --num_gpus 8 t.py --deepspeed --deepspeed_config ds.json\n#@ file ds.json\n"
    '{{"train_batch_size": 64, "zero_optimization": {{"stage": {}}}, {}}}\n'
)
_FILE = (
    "accelerate launch --config_file a.yaml t.py\n#@ file a.yaml\ndistributed_type: MULTI_GPU\nnum_machines: 1\n"
    "num_processes: {}\ngpu_ids: {}\n"
)
_CALL = "torchrun --standalone --nproc_per_node=4 t.py\n#@ file t.py\n{}\n"
_TRAINER = _CALL.format("import lightning as L\nL.Trainer(devices=4, {}={}).fit(net)")
_LOADER = _CALL.format("from torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=8, {}={})")
_COMPILE = _CALL.format("import torch\nnet = torch.compile(net, mode='{}'{})")
_VLLM, _SGLANG = "vllm serve /m {}\n", "python -m sglang.launch_server --model-path /m {}\n"
_BEST = "--load_best_model_at_end True --eval_strategy steps --save_strategy steps --eval_steps {} --save_steps {}"

Given = tuple[object, ...]
ROWS: list[tuple[str, str, Given, Given]] = [
    ("W11", _HF, ("--fsdp 'full_shard autowrap'",), ("--fsdp 'full_shard auto_wrap'",)),
    ("W11", _HF, ("--fsdp full_shard,auto_wrap",), ("--fsdp $SHARDING",)),
    ("W11", _HF.format(_BEST), ("0.1", "500"), ("0.1", "0.2")),
    ("W11", _HF.format("--num_generations 8 --generation_batch_size {}"), (40,), (64,)),
    ("W11", _GRPO, ("2",), ("4",)),
    *(
        ("W11", _GPT, (_ALL.replace(f"--{name} {value} ", ""),), (_ALL.replace(f"--{name} {value} ", "$MODEL_ARGS "),))
        for name, value in _NEEDED.items()
    ),
    ("W11", _GPT, (_ALL.replace("--seq-length 1024 ", ""),), (_ALL,)),
    *(
        ("W11", _GPT.format(_ALL + "{}"), (f"{more} 2000",), (f"{more} 200",))
        for more in (
            "--train-iters 9000 --lr-decay-iters 1000 --lr-warmup-iters",
            "--train-iters 1000 --lr-warmup-iters",
            "--train-samples 9000 --lr-decay-samples 1000 --lr-warmup-samples",
        )
    ),
    ("W11", _GPT.format(_ALL + "--sequence-parallel --num-experts 24 --expert-model-parallel-size {}"), (3,), (4,)),
    ("D11", _DEEPSPEED, (1, '"communication_data_type": "fp8"'), (1, '"communication_data_type": "fp32"')),
    ("D11", _DEEPSPEED, (0, '"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}'),
     (1, '"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}')),
    ("T70", _TRAINER, ("limit_train_batches", 1.5), ("limit_train_batches", 0.5)),
    ("T70", _TRAINER, ("val_check_interval", 2.5), ("val_check_interval", 250)),
    ("T70", _TRAINER, ("gradient_clip_algorithm", "'values'"), ("gradient_clip_algorithm", "'value'")),
    ("T70", _TRAINER, ("max_epochs", -2), ("max_epochs", -1)),
    ("T70", _TRAINER, ("barebones=True, logger", True), ("barebones=True, logger", False)),
    ("T70", _TRAINER.format("check_val_every_n_epoch=None, {}", "{}"), ("val_check_interval", 0.5),
     ("val_check_interval", 500)),
    ("T70", _LOADER, ("num_workers", -1), ("num_workers", 0)),
    ("T70", _LOADER, ("timeout", -1), ("timeout", 60)),
    ("T70", _LOADER, ("multiprocessing_context", "'spawn'"), ("num_workers=2, multiprocessing_context", "'spawn'")),
    ("T70", _COMPILE, ("max-autotuned", ""), ("max-autotune", "")),
    ("T70", _COMPILE, ("mine", ""), ("mine", ", backend='mine'")),
    ("T70", _CALL.format("from torch.utils.data.distributed import DistributedSampler\n"
                         "sampler = DistributedSampler(data, num_replicas=4, rank={})"), (4,), (3,)),
    ("T70", _CALL.format("from accelerate import Accelerator\nAccelerator(mixed_precision={!r})"), ("float16",),
     ("no",)),
    ("R19", _FILE, (2, "'0'"), (2, "0,1")),
    ("R19", _FILE, (-1, "all"), (2, "all")),
    ("W16", _VLLM, ("--enable-auto-tool-choice",), ("--enable-auto-tool-choice --tool-call-parser hermes",)),
    ("W16", _VLLM, ("--enable-auto-tool-choice",), ("--enable-auto-tool-choice --config serve.yaml",)),
    ("W16", _VLLM, ("--max-loras 4 --max-cpu-loras 2",), ("--max-loras 4 --max-cpu-loras 8",)),
    ("W16", _VLLM, ("--max-loras 0",), ("--max-loras 1",)),
    ("W16", _VLLM, ("--distributed-executor-backend mpi",), ("--distributed-executor-backend mine.Executor",)),
    ("W16", _VLLM, ("--dtype fp8",), ("--dtype bfloat16 --quantization fp8",)),
    ("W16", _SGLANG, ("--dtype bf16",), ("--dtype bfloat16",)),
    ("W16", _SGLANG, ("--max-loras-per-batch 0",), ("--max-loras-per-batch 4",)),
    ("W16", _SGLANG.format("--max-loras-per-batch 4 --max-loaded-loras {}"), (2,), (4,)),
    ("W16", _SGLANG, ("--enable-lora",), ("--enable-lora --max-lora-rank 64 --lora-target-modules all",)),
    ("W16", _SGLANG, ("--enable-torch-compile --disable-cuda-graph-padding",), ("--enable-torch-compile",)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "start", "bad", "good"), ROWS, ids=[f"{row[0]}-{row[2][-1]}"[:60] for row in ROWS])
def test_a_row_fires_on_what_it_is_for_and_not_on_what_is_put_right(
    code: str, start: str, bad: Given, good: Given
) -> None:
    assert code in errors(job_of("", start.format(*bad)))
    assert code not in errors(job_of("", start.format(*good)))
