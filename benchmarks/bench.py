"""Speed against peers and the hardware's floor: measures everything and writes docs/benchmarks (page, plots, raw numbers).

    make bench                                       # about 35 minutes on 2 idle cores
    python benchmarks/bench.py --quick --out build/trial  # small sizes, to see that everything works
    python benchmarks/bench.py --only evaluation     # one section, printed, nothing written

Finished sections are kept in build/bench until the page is written: an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import page
from processes import HERE, environment

ROOT = HERE.parent
PREDICTION = HERE / "prediction.py"
SECTIONS = page.MODULES


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes and few turns; numbers of no weight")
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS, "prediction"], help="print these sections, write nothing")
    parser.add_argument("--out", type=Path, help="folder of the page (docs/benchmarks; build/bench-quick with --quick)")
    chosen = parser.parse_args(arguments)
    if chosen.only:
        for name in chosen.only:
            print(page.section(name, _measure(name, chosen.quick)), flush=True)
        return
    state = ROOT / "build" / ("bench-quick-state" if chosen.quick else "bench")
    results = {name: _kept(name, chosen.quick, state / f"{name}.json") for name in [*SECTIONS, "prediction"]}
    out = chosen.out or ROOT / ("build/bench-quick" if chosen.quick else "docs/benchmarks")
    page.write(out, results, chosen.quick)
    for path in state.glob("*.json"):
        path.unlink()
    print(page.bars_of(results) + f"\nWritten: {out / 'index.md'}")


def _kept(name: str, quick: bool, path: Path) -> dict:
    """A section's result, measured now unless an interrupted run has left it."""
    if path.exists():
        print(f"{name}: kept from the interrupted run", flush=True)
        return json.loads(path.read_text())
    print(f"{name}: measuring ...", end="", flush=True)
    begin = time.perf_counter()
    result = _measure(name, quick)
    print(f" {time.perf_counter() - begin:.0f} s", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return result


def _measure(name: str, quick: bool) -> dict:
    """A section's result with the circumstances it was measured in."""
    load, begin = os.getloadavg()[0], time.perf_counter()
    result = _prediction(quick) if name == "prediction" else SECTIONS[name].measure(quick)
    return {**machine(), "load": load, "took": time.perf_counter() - begin, "result": result}


def _prediction(quick: bool) -> dict:
    """What benchmarks/prediction.py prints; a repository without it has no such section."""
    if not PREDICTION.exists():
        return {"reason": "Not measured: benchmarks/prediction.py is not there.\n"}
    options = ["--turns", "20", "--no-stack"] if quick else []
    done = subprocess.run([sys.executable, str(PREDICTION), *options], env=environment(1), capture_output=True, text=True)
    if done.returncode:
        return {"reason": f"Not measured: {(done.stderr.strip().splitlines() or ['no message'])[-1]}\n"}
    return {"printed": done.stdout}


def machine() -> dict:
    """Where and when."""
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit,
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


if __name__ == "__main__":
    main()
