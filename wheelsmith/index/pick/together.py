"""Choose wheels of several projects for one machine, all for the same torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wheelsmith.base.units import listed, release_order
from wheelsmith.frameworks import framework, torch_index
from wheelsmith.index.pick.decide import Decision, Overrides, decide
from wheelsmith.index.pick.machine import Machine
from wheelsmith.index.resolve.choose import Axes, Chooser, find_nearest
from wheelsmith.index.resolve.install_commands import (
    Installer,
    Template,
    fill_template,
    group_slots,
    pin_by_url,
    template_for_group,
)
from wheelsmith.index.resolve.target import Choice, Nearest, Refusal, Target
from wheelsmith.model import release_title
from wheelsmith.platforms import CPU, compute_name, compute_order


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """The wheels of one or more projects, or the reasons that some of them have none.

    :param decisions: project → its wheel or refusal.
    :param nearest: similar targets for which all projects have a wheel. Empty if all have one already.
    """

    decisions: dict[str, Decision]
    nearest: tuple[Nearest, ...] = ()

    @property
    def lead(self) -> Decision:
        """Return a decision whose target has the torch that all of them use."""

        def order(decision: Decision) -> tuple[bool, tuple[int, ...]]:
            target = decision.target
            # A wheel for an older CUDA may serve this torch. The newest one is torch's own.
            return framework(target.framework).builds_per_compute, compute_order(target.compute)

        return max(self.decisions.values(), key=order)

    @property
    def refused(self) -> dict[str, Refusal]:
        """Return the projects without a wheel."""
        return {name: each.answer for name, each in self.decisions.items() if isinstance(each.answer, Refusal)}

    @property
    def reason(self) -> str:
        """Return which projects are in the way, and why."""
        if len(self.decisions) == 1:
            return next(iter(self.refused.values())).reason
        target, others = self.lead.target, [name for name in self.decisions if name not in self.refused]
        release = f"{release_title(target.framework, target.release)}, " if target.release else ""
        what, without = f"{release}{compute_name(target.compute)}", listed(list(self.refused))
        why = "; ".join(dict.fromkeys(refusal.reason for refusal in self.refused.values()))
        if not others:
            return f"there is no wheel of {without} for {what}: {why}"
        return f"{listed(others)} {'has' if len(others) == 1 else 'have'} a wheel for {what}, but {without} not: {why}"

    def commands(self, installer: Installer, base: str) -> Template:
        """Return the install commands for all projects, with every slot replaced. All of them must have a wheel."""
        if len(self.decisions) == 1:
            return self.lead.commands(installer, base)
        wheels = [(each.answer, each.target) for each in self.decisions.values() if isinstance(each.answer, Choice)]
        lead = self.lead
        slots = group_slots(wheels, lead.target, lead.presence, installer, torch_index())
        others = any(each["requires"] for each in slots)
        template = template_for_group(installer, lead.presence, framework=lead.target.framework, others=others)
        if any(each.by_hash for each in self.decisions.values()):
            template = pin_by_url(template)
        return fill_template(template, *({**each, "base": base} for each in slots))


def decide_together(choosers: Sequence[Chooser], machine: Machine, overrides: Overrides) -> GroupDecision:
    """Choose wheels for the torch of the machine, or for the newest combination that all projects have in common."""
    if len(choosers) == 1:
        one = decide(choosers[0], machine, overrides)
        nearest = one.answer.nearest if isinstance(one.answer, Refusal) else ()
        return GroupDecision(decisions={choosers[0].catalogue.project: one}, nearest=nearest)
    tried = []
    for asked in _requests([chooser.axes for chooser in choosers], machine, overrides):
        found = GroupDecision(decisions=dict(_decisions(choosers, machine, asked, overrides.torch)))
        if not found.refused:
            return found
        tried.append(found)
    best = min(tried, key=lambda each: len(each.refused))
    return replace(best, nearest=_nearest(choosers, best.lead.target))


def _decisions(
    choosers: Sequence[Chooser], machine: Machine, asked: Overrides, torch: str | None
) -> Iterator[tuple[str, Decision]]:
    for chooser in choosers:
        needs_torch = framework(chooser.axes.framework).builds_per_compute
        yield chooser.catalogue.project, decide(chooser, machine, asked if needs_torch else replace(asked, torch=torch))


def _requests(every: Sequence[Axes], machine: Machine, overrides: Overrides) -> Iterator[Overrides]:
    """Yield the requests to try, newest torch and CUDA first. What the user or the environment has stays."""
    with_torch = [axes for axes in every if framework(axes.framework).builds_per_compute]
    is_here = overrides.arch in {None, machine.arch} and overrides.python is None
    driver = overrides.driver or (machine.driver if is_here else None)
    computes = {name for axes in every for name in axes.computes if driver or name == CPU}
    if machine.torch or not computes:
        yield overrides
        return
    releases = sorted({name for axes in with_torch for name in axes.by_default}, key=release_order, reverse=True)
    for release in [overrides.torch] if overrides.torch or not releases else releases:
        for compute in (
            sorted(computes, key=compute_order, reverse=True) if not overrides.compute else [overrides.compute]
        ):
            yield replace(overrides, torch=release, compute=compute)


def _nearest(choosers: Sequence[Chooser], target: Target) -> tuple[Nearest, ...]:
    """Return similar targets for which all projects have a wheel."""
    axes = [chooser.axes for chooser in choosers]
    same = [each for each in axes if each.framework == target.framework]

    def is_served(by: Chooser, wanted: Target) -> bool:
        if by.axes.framework == wanted.framework:
            return by.find(wanted) is not None
        return by.find(replace(wanted, framework=by.axes.framework, release=by.axes.releases[-1])) is not None

    every = Axes(
        framework=target.framework,
        releases=tuple(sorted({name for each in same for name in each.releases}, key=release_order)),
        computes=tuple(sorted({name for each in axes for name in each.computes}, key=compute_order)),
        archs=tuple(sorted({name for each in axes for name in each.archs}, reverse=True)),
        pythons=max((each.pythons for each in axes), key=len),
    )
    return find_nearest(target, every, lambda other: all(is_served(chooser, other) for chooser in choosers))
