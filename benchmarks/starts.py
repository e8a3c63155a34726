"""What the commands that only look cost, in starts of a bare Python: the ratio of processor times within one run.

    python benchmarks/starts.py
    python benchmarks/starts.py --rounds 21 --command=list --command=--help

Each command and `python -c pass` run by turns, and the median of the ratios is printed. The first run of a command,
which may write what later ones read (bytecode, the listing of plugins), is printed by itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import statistics
import subprocess
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--command", action="append", help="words after fieldbench; --help and list by default")
    wanted = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for command in wanted.command or ["--help", "list"]:
        start = [sys.executable, "-c", "from fieldbench.cli.main import main; main()", *shlex.split(command)]
        first = processor_time(start)
        bare, times = [], []
        for _ in range(wanted.rounds):
            bare.append(processor_time([sys.executable, "-c", "pass"]))
            times.append(processor_time(start))
        ratio = statistics.median(time / alone for time, alone in zip(times, bare, strict=True))
        print(
            f"fieldbench {command:<12} {ratio:6.1f} bare starts of {statistics.median(bare) * 1e3:.1f} ms"
            f" (the first time {first / statistics.median(bare):.1f}); aim: 12"
        )


def processor_time(command: list[str]) -> float:
    """Seconds of processor time, user and system, of one command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{shlex.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
