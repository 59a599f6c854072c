"""Accelerate: the metric is gathered where only the local main process comes."""

import accelerate  # type: ignore[import-untyped]
import torch


def main() -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    model = accelerator.prepare(torch.nn.Linear(4, 1))
    for step in range(1000):
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        loss = model(torch.ones(2, 4)).mean()
        accelerator.backward(loss)
        if accelerator.is_local_main_process and step > 2:
            print(accelerator.gather(loss.detach()))


if __name__ == "__main__":
    main()
