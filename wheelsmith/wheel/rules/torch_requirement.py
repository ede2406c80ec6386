"""The torch that the version names is the torch that is required."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.frameworks import STABLE, torch_releases
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.requirements import TorchRequirement
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    torch, pin = wheel.torch_requirement, wheel.named_torch
    if torch is None:
        if pin:
            yield finding("torch-requirement", [f"the version says torch {pin}, and no torch is required"], "")
        elif wheel.local_version.stable:
            yield finding("torch-requirement", [f"the version says {STABLE}, and no torch is required"], "")
        return
    wrong = list(torch.wrong)
    if pin:
        wrong += _against_pin(torch, pin)
    newest = list(torch_releases())[-1]
    if wheel.local_version.stable and not torch.wrong and newest not in torch.releases and not torch.beyond:
        wrong.append(f"the version says {STABLE}, Requires-Dist says {torch.text}, which leaves out torch {newest}")
    if others := [platform for platform in torch.platforms if not platform.startswith(wheel.compute or "")]:
        wrong.append(
            f"the version says {wheel.compute}, Requires-Dist says {torch.text}, which is torch for {others[0]}"
        )
    also = f" ({', '.join(torch.beyond)} too)" if torch.beyond else ""
    yield finding(
        "torch-requirement", wrong, f"Requires-Dist: {torch.text}: {', '.join(torch.releases) or 'no known'}{also}"
    )


def _against_pin(torch: TorchRequirement, pin: str) -> Iterator[str]:
    others = [*(release for release in torch.releases if release != pin), *torch.beyond]
    if others:
        yield f"the version says torch {pin}, Requires-Dist says {torch.text}, which may be {', '.join(others[:3])}"
    elif not torch.releases and not torch.wrong:
        yield f"the version says torch {pin}, Requires-Dist says {torch.text}"
    if torch.absent:
        yield f"the version says torch {pin}, and no torch is required for {torch.absent[0]}"


RULE = Rule(
    name="torch-requirement",
    proves="all `Requires-Dist` lines for torch together, their markers evaluated for every Python and machine that "
    "the tags allow, and for each extra, admit what the local version names: `+cu130.torch2.11` requires 2.11 and no "
    "other, `+cu130.torchstable` names no newest one; they do not contradict each other, name no URL and pin no build "
    "of torch for another compute platform",
    leaves_open="a version that names no torch is judged by `symbols`, which asks the releases that are admitted",
    examine=_examine,
)
