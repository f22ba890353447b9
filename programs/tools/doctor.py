"""Reports what works on this machine and what doesn't, with remedies.

./run boonta doctor
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent import futures

from boonta.programs.tools.checks import machine, software
from boonta.programs.tools.checks.finding import Finding, anonymous

CHECKS: Sequence[Callable[[], Finding | list[Finding]]] = (
    software.python,
    software.boonta,
    software.variables,
    software.jax,
    machine.cores,
    machine.memory,
    machine.shared_memory,
    machine.disk,
    machine.open_files,
    software.private_network,
    machine.loopback,
    software.cluster,
    software.roms,
    software.renderers,
    software.optional,
    machine.clusters,
)
AT_ONCE = 4  # Most checks wait for a process.


def examine() -> list[Finding]:
    """All findings, without the names of users and hosts."""
    with futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = [each for group in pool.map(_guarded, CHECKS) for each in group]
    return [each._replace(found=anonymous(each.found), advice=anonymous(each.advice)) for each in found]


def _guarded(check: Callable[[], Finding | list[Finding]]) -> list[Finding]:
    """The findings of a check; one that fails is a finding, too."""
    try:
        found = check()
    except Exception as error:
        failure = f"could not be checked: {type(error).__name__}: {error}"
        return [Finding(check.__name__.replace("_", " "), "warning", failure, "please report this")]
    return found if isinstance(found, list) else [found]


def report(findings: Sequence[Finding]) -> str:
    """The findings as lines, and a line with those that are missing."""
    width = max(len(each.name) for each in findings)
    lines = []
    for each in findings:
        lines.append(f"{each.name:{width}}  {each.state:7}  {each.found}")
        if each.advice:
            lines.append(f"{'':{width}}           -> {each.advice}")
    missing = [each.name for each in findings if each.state == "missing"]
    lacking = f"A run on this machine lacks: {', '.join(missing)}."
    return "\n".join([*lines, "", lacking if missing else "Programs can run on this machine."])


def main() -> None:
    """The command line of `doctor`; it needs the standard library alone, since packages may be missing."""
    parser = argparse.ArgumentParser(
        prog="boonta doctor",
        description="Reports what works on this machine and what doesn't. The exit code is 1 if something is missing "
        "that a run here needs. The report names no user and no host: paste it into an issue.",
    )
    parser.add_argument("--json", action="store_true", help="print a list of findings: name, state, found, advice")
    options = parser.parse_args()
    findings = examine()
    print(json.dumps([each._asdict() for each in findings], indent=2) if options.json else report(findings))
    sys.exit(any(each.state == "missing" for each in findings))
