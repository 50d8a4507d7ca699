#!/usr/bin/env python3
"""Reads every #include under src/ and says which ones leave their room upwards or sideways.

    python3 tests/check_rooms.py             # the tree
    python3 tests/check_rooms.py --selftest  # that the check can fail
"""
import pathlib
import re
import sys

# Lowest first; rooms of one line do not include each other.
LEVELS = [
    {"base"},
    {"memory"},
    {"transport", "kernels", "placement", "text"},
    {"exchange"},
    {"elastic", "scheduler", "model"},
    {"rank"},
    {"engine"},
    {"server"},
    {"cli"},
]
LEVEL = {room: i for i, rooms in enumerate(LEVELS) for room in rooms}
FREE = {"sim"}  # may include rooms; no room includes it
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def violations(path, text):
    room = path.split("/")[0]
    if room not in LEVEL and room not in FREE:
        yield f"{path}: unknown room {room}: add it to design, CMakeLists.txt and this list"
        return
    for include in INCLUDE.findall(text):
        other = include.split("/")[0]
        if other in FREE and room not in FREE:
            yield f"{path}: includes {include}: no room includes {other}"
        elif "/" not in include:
            yield f"{path}: includes {include}: name the room, as in {room}/{include}"
        elif other not in LEVEL:
            yield f"{path}: includes {include}: unknown room {other}"
        elif room in LEVEL and other != room and LEVEL[other] >= LEVEL[room]:
            yield f"{path}: includes {include}: {other} is not below {room}"


def selftest():
    assert not list(violations("exchange/a.cc", '#include "kernels/gemm.h"\n'))
    assert list(violations("kernels/a.cc", '#include "exchange/b.h"\n'))
    assert list(violations("kernels/a.cc", '#include "text/b.h"\n'))
    assert list(violations("cli/a.cc", '#include "sim/b.h"\n'))
    assert list(violations("utils/a.cc", ""))


def main():
    selftest()
    if "--selftest" in sys.argv:
        return 0
    src = pathlib.Path(__file__).resolve().parent.parent / "src"
    files = sorted(p for p in src.rglob("*") if p.suffix in {".h", ".cc", ".cu", ".inc"})
    found = [v for p in files for v in violations(str(p.relative_to(src)), p.read_text())]
    print("\n".join(found) if found else f"rooms: {len(files)} files, no include leaves its room upwards")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
