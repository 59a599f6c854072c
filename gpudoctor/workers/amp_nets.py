"""Two small nets, trained one step in fp32 and under autocast from the same weights and data, and compared."""

import copy
import math
from typing import Any, Callable, Dict, List, Optional, Tuple

NETS = ("convolution", "transformer")
SEED = 20
# Gradients of a mean over a batch are small, and fp16 loses what is below 6e-8 (its smallest subnormal number).
LOSS_SCALE = 1024.0


class AutocastDisabled(Exception):
    """autocast said itself that it will do nothing."""


class Step:
    """What one forward and backward pass gave, on the CPU in float64."""

    def __init__(self, output: Any, gradients: Dict[str, Any], out_dtype: str, layers: List[str]) -> None:
        self.output = output
        self.gradients = gradients
        self.out_dtype = out_dtype
        self.layers = layers
        """Of each convolution and linear layer: "name:dtype of its output"."""


class Reference:
    """The nets, their data, and what fp32 with TF32 off gives on a device."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch = torch
        self.device = device
        self.cases = {name: case(torch, name) for name in NETS}
        self.steps = {name: self.step(name, device, None) for name in NETS}
        # fp32 itself may be wrong on a broken device, and would make every other precision look so.
        self.error = None  # type: Optional[float]
        exact = [self.step(name, torch.device("cpu"), None, double=True) for name in NETS]
        self.error = number(max(relative(self.steps[name].output, step.output) for name, step in zip(NETS, exact)))

    def step(self, name: str, device: Any, low: Any, double: bool = False) -> Step:
        """One pass of a net; `low` is autocast's dtype, None for none."""
        torch = self.torch
        net, inputs, target = self.cases[name]
        net, inputs, target = copy.deepcopy(net).to(device), inputs.to(device), target.to(device)
        if double:
            net, inputs, target = net.double(), inputs.double(), target.double()
        seen = []  # type: List[str]
        for layer_name, layer in net.named_modules():
            if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
                layer.register_forward_hook(watch(layer_name, seen))
        scale = LOSS_SCALE if low is not None and low == torch.float16 else 1.0
        if low is None:
            output = net(inputs)
            loss = torch.nn.functional.mse_loss(output, target)
        else:
            with autocast(torch, device, low):
                output = net(inputs)
                loss = torch.nn.functional.mse_loss(output.float(), target)
        (loss * scale).backward()
        gradients = {}
        for parameter_name, parameter in net.named_parameters():
            kinds = {short(parameter.dtype), short(parameter.grad.dtype) if parameter.grad is not None else "missing"}
            wanted = "float64" if double else "float32"
            if kinds != {wanted}:
                raise RuntimeError(f"parameter {parameter_name} and its gradient are {' and '.join(sorted(kinds))}")
            gradients[parameter_name] = parameter.grad.detach().cpu().double() / scale
        return Step(output.detach().cpu().double(), gradients, short(output.dtype), seen)

    def compare(self, name: str, low: Any) -> Dict[str, Any]:
        """One net in lower precision against fp32; `low` None compares what is switched on otherwise (TF32)."""
        expected, computed = self.steps[name], self.step(name, self.device, low)
        errors = {key: relative(computed.gradients[key], expected.gradients[key]) for key in expected.gradients}
        worst = max(errors, key=lambda key: math.inf if math.isnan(errors[key]) else errors[key])
        every = [self.torch.cat([step.gradients[key].flatten() for key in errors]) for step in (expected, computed)]
        wanted = short(low) if low is not None else "float32"
        return {
            "net": name,
            "output_error": number(relative(computed.output, expected.output)),
            "gradient_error": number(relative(every[1], every[0])),
            "gradient_cosine": number(cosine(every[1], every[0])),
            "worst_parameter": worst,
            "worst_error": number(errors[worst]),
            "out_dtype": computed.out_dtype,
            "layers_elsewhere": [layer for layer in computed.layers if not layer.endswith(f":{wanted}")][:8],
            "finite": bool(computed.output.isfinite().all()) and bool(every[1].isfinite().all()),
        }


def watch(name: str, seen: List[str]) -> Callable[[Any, Any, Any], None]:
    def hook(layer: Any, inputs: Any, output: Any) -> None:
        seen.append(f"{name}:{short(output.dtype)}")

    return hook


def autocast(torch: Any, device: Any, low: Any) -> Any:
    """torch.amp.autocast. Raises `AutocastDisabled` when it is not on inside: it then said why in a warning."""
    context = torch.amp.autocast(device.type, dtype=low)
    if not getattr(context, "_enabled", True):
        raise AutocastDisabled()
    return context


def case(torch: Any, name: str) -> Tuple[Any, Any, Any]:
    """A net in float32 on the CPU, its inputs and its targets, the same in every process."""
    torch.manual_seed(SEED)
    net = convolution(torch) if name == "convolution" else transformer(torch)
    generator = torch.Generator().manual_seed(SEED)
    shape = (8, 3, 32, 32) if name == "convolution" else (4, 32, 128)
    inputs = torch.randn(*shape, generator=generator)
    target = torch.randn(*net(inputs).shape, generator=generator)
    return net, inputs, target


def convolution(torch: Any) -> Any:
    """Convolutions with batch norm, as image nets have them.

    SiLU and not ReLU: where rounding turns a ReLU on or off, single gradients differ by a tenth, and the limits
    could not be narrow. No parameter has a gradient that is zero by construction.
    """
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.SiLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 16),
    )


def transformer(torch: Any, width: int = 128, heads: int = 4, blocks: int = 1, outputs: int = 32) -> Any:
    """Transformer blocks with pre-norm and scaled_dot_product_attention, and a linear head."""
    nn = torch.nn

    def written_out(q: Any, k: Any, v: Any) -> Any:
        return nn.functional.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v

    attention = getattr(nn.functional, "scaled_dot_product_attention", written_out)  # since torch 2.0

    class Block(nn.Module):  # type: ignore[misc, name-defined]  # here, for torch comes as an argument
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            # Without a bias: that of the keys has no gradient, for softmax does not see it.
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.out = nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            attended = attention(q, k, v)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    return nn.Sequential(*(Block() for _ in range(blocks)), nn.LayerNorm(width), nn.Linear(width, outputs))


def relative(found: Any, expected: Any) -> float:
    """Relative L2 error."""
    return float((found - expected).norm() / expected.norm())


def cosine(found: Any, expected: Any) -> float:
    return float((found @ expected) / (found.norm() * expected.norm()))


def number(value: float) -> Optional[float]:
    """JSON has no NaN and no infinity."""
    return float(value) if math.isfinite(value) else None


def short(dtype: Any) -> str:
    """ "bfloat16"."""
    return str(dtype).replace("torch.", "")
