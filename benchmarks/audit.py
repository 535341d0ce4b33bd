"""Known vulnerabilities of what viewloom depends on (needs ``pip install pip-audit`` and its service).

Usage: ``python benchmarks/audit.py [--json FILE]``. Of the packages that viewloom and its extras need,
directly or not, those that are installed here are asked for. Ends with 1 where one has a known vulnerability,
and with 3 where some could not be asked for: that is no clean bill. Of those, it tells which are not the
newest release, as far as the package index knows: what was mended there is not mended here.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

VULNERABLE, UNKNOWN = 1, 3
NOT_OURS = ("dev", "docs", "bench")  # extras that users do not install


@dataclass(frozen=True)
class Audit:
    """What the advisory service said, by package."""

    sound: list[str] = field(default_factory=list)
    vulnerable: dict[str, list[str]] = field(default_factory=dict)  # package -> advisories
    not_asked: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        """The exit code."""
        return VULNERABLE if self.vulnerable else UNKNOWN if self.not_asked else 0


def needed(package: str = "viewloom") -> dict[str, str]:
    """Names and versions of all installed packages that this one needs."""
    found: dict[str, str] = {}
    waiting = [package]
    while waiting:
        name = waiting.pop()
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed here
            continue
        lines = [line for line in requires(name) or [] if not is_extra(line, of=name, root=package)]
        names = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in lines}
        waiting += sorted(names - set(found) - set(waiting))
    return {name: number for name, number in found.items() if name != package}


def is_extra(line: str, of: str, root: str) -> bool:
    """Whether a requirement is only for those who ask for it: of ours, that of developers."""
    extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
    return extra is not None and (of != root or extra[1] in NOT_OURS)


def asked(packages: dict[str, str]) -> Audit:
    """What pip-audit finds out."""
    lines = "\n".join(f"{name}=={number}" for name, number in sorted(packages.items()))
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off"]
    arguments = ["--format", "json", "-r", "/dev/stdin"]
    done = subprocess.run([*command, *arguments], input=lines, capture_output=True, text=True)
    try:
        entries = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return Audit(not_asked=sorted(packages))
    audit = Audit()
    for entry in entries:
        if "skip_reason" in entry:
            audit.not_asked.append(entry["name"])
        elif entry["vulns"]:
            audit.vulnerable[entry["name"]] = [found["id"] for found in entry["vulns"]]
        else:
            audit.sound.append(entry["name"])
    return audit


def outdated(names: list[str]) -> dict[str, str]:
    """Those of which the package index has a newer release, with its number."""
    command = [sys.executable, "-m", "pip", "list", "--outdated", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    newest = {
        entry["name"].lower().replace("_", "-"): entry["latest_version"] for entry in json.loads(done.stdout)
    }
    return {name: newest[name] for name in names if name in newest}


def main(argv: list[str] | None = None) -> int:
    """Ask, tell, and end with the code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write all answers to this file")
    options = parser.parse_args(argv)
    audit = asked(needed())
    print(f"{len(audit.sound)} packages without a known vulnerability, {len(audit.vulnerable)} with one")
    for name, advisories in audit.vulnerable.items():
        print(f"  {name}: {', '.join(advisories)}")
    if audit.not_asked:
        print(f"{len(audit.not_asked)} packages could not be asked for: {', '.join(audit.not_asked)}")
        behind = outdated(audit.not_asked)
        print(f"{len(audit.not_asked) - len(behind)} of them are the newest release")
        for name, number in behind.items():
            print(f"  {name}: {number} is newer")
    if options.json:
        options.json.write_text(json.dumps(asdict(audit), indent=1), encoding="utf-8")
    return audit.code


if __name__ == "__main__":
    sys.exit(main())
