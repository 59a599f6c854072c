"""accelerate: evaluated every so many steps of a progress bar, which counts on one process only."""

# mypy: ignore-errors
# After https://github.com/huggingface/transformers/issues/31532.
import sys
import time

import torch
from accelerate import Accelerator
from tqdm.auto import tqdm


def evaluate(accelerator, model, loader):
    model.eval()
    right = []
    for inputs, labels in loader:
        with torch.no_grad():
            guesses = model(inputs).argmax(-1)
        right.append(accelerator.gather_for_metrics((guesses == labels).float()))
    model.train()
    return torch.cat(right).mean().item()


def main():
    accelerator = Accelerator(cpu=True)
    healthy = "--healthy" in sys.argv
    data = torch.utils.data.TensorDataset(torch.rand(64, 5), torch.randint(0, 3, (64,)))
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    held_out = torch.utils.data.DataLoader(data, batch_size=8)
    model, optimizer, loader, held_out = accelerator.prepare(model, optimizer, loader, held_out)
    bar = tqdm(total=100000, disable=not (healthy or accelerator.is_main_process))
    step = 0
    while step < 2000:
        for inputs, labels in loader:
            time.sleep(0.2)
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(model(inputs), labels))
            optimizer.step()
            print(f"rank {accelerator.process_index} step {step}", flush=True)
            bar.update(1)
            step += 1
            if bar.n and bar.n % 6 == 0:
                bar.set_description(f"accuracy {evaluate(accelerator, model, held_out):.2f}")


if __name__ == "__main__":
    main()
