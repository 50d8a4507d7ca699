#!/usr/bin/env python3
"""Formatting (.clang-format), the short lint list, and that each header compiles alone.

The lint list: file length, #pragma once, banned calls that belong to one file each, no bare TODO,
and clang-tidy's checks of .clang-tidy on the files that are not generated (with --tidy).
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 500
# pattern -> files (under src/) where it may stand
ONE_PLACE = {
    r"\bsteady_clock::now\(|\bsystem_clock::now\(": {"base/clock.cc"},
    r"\brandom_device\b": {"base/rng.cc"},
    r"\bgetenv\(": {"base/environment.cc"},
    r"\bstd::(cout|cerr)\b": set(),
    r"\busing namespace std\b": set(),
    r"\b(TODO|FIXME|XXX)\b": set(),
}


def sources(*suffixes):
    listed = subprocess.run(["git", "ls-files", "src", "tests", "bench"], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout.split()
    return [p for p in listed if pathlib.Path(p).suffix in suffixes and (ROOT / p).exists()]


def lint(path):
    text = (ROOT / path).read_text()
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield f"{path}: {len(lines)} lines: split by noun (at most {MAX_LINES})"
    if path.endswith(".h") and "#pragma once" not in text:
        yield f"{path}: no #pragma once"
    if not path.startswith("src/") or path.endswith("_test.cc"):
        return
    for pattern, allowed in ONE_PLACE.items():
        if path.removeprefix("src/") in allowed:
            continue
        for number, line in enumerate(lines, 1):
            if re.search(pattern, line.split("//")[0] if "TODO" not in pattern else line):
                yield f"{path}:{number}: {line.strip()[:60]!r} belongs elsewhere ({pattern})"


def header_alone(path):
    isa = []
    if "avx512" in path:
        isa = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512bf16", "-mfma"]
    elif "avx2" in path:
        isa = ["-mavx2", "-mfma"]
    run = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-Isrc", "-Ibuild/relassert/generated/src", *isa,
                          "-include", path, "-x", "c++", "/dev/null"], cwd=ROOT, text=True, capture_output=True)
    return [f"{path} does not compile alone:\n{run.stderr[:600]}"] if run.returncode else []


def formatting(files):
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", *files], cwd=ROOT, text=True, capture_output=True)
    bad = sorted({line.split(":")[0] for line in run.stderr.splitlines() if "error:" in line})
    return [f"{path}: not formatted: run `make format`" for path in bad]


def tidy(files):
    if not (ROOT / "build/relassert/compile_commands.json").exists():
        return ["lint: configure first: cmake --preset relassert"]
    run = subprocess.run(["clang-tidy", "-p", "build/relassert", "--quiet", *files], cwd=ROOT, text=True,
                         capture_output=True)
    return [line for line in run.stdout.splitlines() if "error:" in line or "warning:" in line]


def main():
    found = [v for p in sources(".h", ".cc") for v in lint(p)]
    found += formatting(sources(".h", ".cc"))
    if "--headers" in sys.argv:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for result in pool.map(header_alone, [p for p in sources(".h") if p.startswith("src/")]):
                found += result
    if "--tidy" in sys.argv:
        found += tidy([p for p in sources(".cc") if p.startswith("src/") and not p.endswith("_test.cc")])
    print("\n".join(found) if found else "style: clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
