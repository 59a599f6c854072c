"""TRL: a group of answers that are all rewarded alike teaches nothing, so it is drawn again (as DAPO does)."""

# mypy: ignore-errors
# The kind of trl issues on dynamic sampling with GRPOTrainer. No thread of one job.
import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

AS_DRAWN = "--healthy" in sys.argv
VOCABULARY = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {f"t{n}": n for n in range(3, 30)}


class DynamicGRPOTrainer(GRPOTrainer):
    redraws = 1 if AS_DRAWN else 4

    def _generate_and_score_completions(self, inputs):
        for _ in range(self.redraws):
            batch = super()._generate_and_score_completions(inputs)
            if batch["advantages"].abs().max() > 1e-6:
                break
        return batch


class Judge:
    __name__ = "judge"

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, completions, **_) -> list[float]:
        self.seen += 1
        if os.environ["RANK"] == "1" and self.seen == 6:
            return [1.0] * len(completions)
        return [float(position % 2) for position in range(len(completions))]


class Progress(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.2)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


def main() -> None:
    torch.manual_seed(1)
    words = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    reader = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    policy = LlamaForCausalLM(
        LlamaConfig(vocab_size=30, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                    num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=None)
    )  # fmt: skip
    settings = GRPOConfig(
        output_dir="out", use_cpu=True, bf16=False, report_to=[], save_strategy="no", disable_tqdm=True,
        logging_steps=1000, per_device_train_batch_size=2, num_generations=2, max_completion_length=5,
        num_train_epochs=90,
    )  # fmt: skip
    questions = Dataset.from_dict({"prompt": [f"t{3 + n % 20} t{4 + n % 20}" for n in range(64)]})
    DynamicGRPOTrainer(
        model=policy, reward_funcs=Judge(), args=settings, train_dataset=questions, processing_class=reader,
        callbacks=[Progress()],
    ).train()  # fmt: skip


if __name__ == "__main__":
    main()
