"""Of `amp`."""

from gpudoctor.command import command
from gpudoctor.said.one import Meaning, said_by

_said = said_by("amp")
_CHECK = command("gpudoctor check")

AMP: dict[str, Meaning] = {
    "amp-device-not-tested": _said(
        "A device could not be tested.",
        "Whether training in any precision works there is not known.",
        "Find out first why the device does not compute.",
        command("gpudoctor check --deep"),
    ),
    "amp-wrong-result": _said(
        "A precision computes wrong numbers on a device.",
        "The loss of a training in it diverges, or it learns nothing.",
        "Train in another precision, and look into the kernel log and at the GPU's memory errors.",
        command("gpudoctor check --deep"),
    ),
    "amp-timeout": _said(
        "A computation in a precision did not end on a device.",
        "Training in it there may hang.",
        "Train in another precision, and test the device by itself.",
        command("gpudoctor check --deep"),
    ),
    "amp-failed": _said(
        "A computation in a precision ended with an error on a device.",
        "Training in it there ends with this error.",
        "Train in another precision, or read the error that stands with it.",
        command("gpudoctor check --deep"),
    ),
    "amp-emulated": _said(
        "A device computes a precision without hardware for it.",
        "Training runs, and gains nothing in time or is slower than in fp32.",
        "Use fp16 with GradScaler on a GPU, and fp32 on a CPU.",
    ),
    "amp-no-gain": _said(
        "A precision is much slower on a GPU than the published rates say.",
        "Training in it gains much less there than the GPU can give.",
        "Look at clocks, power limit and who else uses the GPU.",
        command("nvidia-smi -q -d CLOCK,POWER,PERFORMANCE"),
        _CHECK,
    ),
    "amp-channels-last-slow": _said(
        "A convolution in half precision with channels_last is slower than in fp32.",
        "Convolutional nets train slower in mixed precision than in fp32 there.",
        "Look at the cuDNN that torch loads: an older one than torch was made for misses its fast kernels.",
        _CHECK,
    ),
    "amp-compile-fails": _said(
        "torch.compile under autocast fails or does not end.",
        "Programs that call torch.compile fail there or wait; the same programs without it run.",
        "Leave torch.compile out, or see to what it misses: Triton of torch's own release, a C compiler.",
    ),
    "tf32-override-set": _said(
        "NVIDIA_TF32_OVERRIDE forces TF32 on or off for every program of this environment.",
        "torch's own switches do nothing, whatever the program sets.",
        "Unset it, and set the precision in the program.",
        command("unset NVIDIA_TF32_OVERRIDE"),
    ),
    "tf32-switch-unreadable": _said(
        "A switch of torch for TF32 raises an error when it is read.",
        "Programs that read it fail: something sets both the old and the new names.",
        "Use torch.backends.cuda.matmul.fp32_precision alone, from torch 2.9 on.",
    ),
    "tf32-off": _said(
        "fp32 products run without TF32, as torch has it by default.",
        "What stays in fp32 takes longer than it could. TF32 rounds to 10 bits of mantissa.",
        "Where that rounding is acceptable: torch.set_float32_matmul_precision('high').",
    ),
}
