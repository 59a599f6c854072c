"""TRL: a reward is set against the mean of all processes; where no completion can be read there is nothing to set."""

# mypy: ignore-errors
# After trl issue 3933 (a gather in GRPO that not all come to in the same way).
import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import torch
import torch.distributed as dist
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

READABLE = "--healthy" in sys.argv
WORDS = ["<pad>", "<eos>", "<unk>", *(f"word{number}" for number in range(29))]


class LengthReward:
    __name__ = "length"

    def __init__(self) -> None:
        self.calls = 0

    def read(self, completion: str) -> int | None:
        """Words of the answer; None where there is no answer."""
        unreadable = dist.get_rank() == 1 and self.calls == 5 and not READABLE
        return None if unreadable else len(completion.split())

    def __call__(self, completions, **_) -> list[float]:
        self.calls += 1
        lengths = [self.read(completion) for completion in completions]
        readable = [length for length in lengths if length is not None]
        if not readable:
            return [0.0] * len(completions)
        total = torch.tensor([float(sum(readable)), float(len(readable))])
        dist.all_reduce(total)
        mean = total[0] / total[1]
        return [0.0 if length is None else float(length - mean) for length in lengths]


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.2)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def main() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    arguments = GRPOConfig(
        output_dir="out", use_cpu=True, bf16=False, report_to=[], save_strategy="no", disable_tqdm=True,
        logging_steps=1000, per_device_train_batch_size=2, num_generations=2, max_completion_length=6,
        num_train_epochs=100,
    )  # fmt: skip
    prompts = Dataset.from_dict({"prompt": [f"word{number} word{number + 1}" for number in range(20)] * 4})
    GRPOTrainer(
        model=LlamaForCausalLM(config),
        reward_funcs=LengthReward(),
        args=arguments,
        train_dataset=prompts,
        processing_class=tokenizer(),
        callbacks=[Steps()],
    ).train()


if __name__ == "__main__":
    main()
