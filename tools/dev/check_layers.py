#!/usr/bin/env python3
"""Rooms form an order (design: "Rooms"); a file may include only what its room may see, and a foreign library only where it is allowed."""
import pathlib
import re
import sys

GROUND = {"engine/include", "engine/base"}
# room -> rooms it may include besides itself (longest prefix of a path names its room)
MAY = {
    "engine/include": set(),
    "engine/base": GROUND,
    "kernels/runtime": GROUND,
    "kernels/gemm": GROUND | {"kernels/runtime"},
    "kernels/ops": GROUND | {"kernels/runtime", "kernels/gemm"},
    "kernels": GROUND | {"kernels/runtime", "kernels/gemm", "kernels/ops"},
    "cpu/parallel": GROUND,
    "cpu/dnnl": GROUND | {"cpu/parallel"},
    "cpu/ops": GROUND | {"cpu/parallel", "cpu/dnnl"},
    "cpu": GROUND | {"cpu/parallel", "cpu/dnnl", "cpu/ops"},
    "offload/plan": GROUND,
    "offload/storage": GROUND,
    "offload/tier": GROUND | {"kernels/runtime"},
    "offload/transfer": GROUND | {"kernels/runtime", "offload/tier", "offload/storage"},
    "offload/probe": GROUND | {"kernels/runtime", "offload/tier", "offload/storage"},
    "offload/run": GROUND | {"kernels/runtime", "offload/plan", "offload/tier", "offload/storage", "offload/transfer"},
}
LOWER = GROUND | {"kernels/runtime", "offload/storage"}
MAY["engine/model"] = GROUND
MAY["engine/graph"] = GROUND | {"engine/model"}
MAY["engine/data"] = GROUND
MAY["engine/checkpoint"] = LOWER | {"engine/model", "engine/data"}
ALL = set(MAY) | {"engine/train", "engine/api"}
MAY["engine/train"] = ALL - {"engine/api"}
MAY["engine/api"] = ALL
MAY["tools"] = ALL | {"tools"}
MAY["tests"] = ALL | {"tools", "tests"}
MAY["examples"] = {"engine/include"}

FOREIGN = {  # include pattern -> rooms
    r"<(cuda|cublas|cub/|nvtx|nvToolsExt)": {"kernels/runtime", "kernels/gemm", "kernels/ops"},
    r"<(dnnl|oneapi/dnnl)": {"cpu/dnnl", "cpu/ops"},
    r"<(tbb|oneapi/tbb)": {"cpu/parallel"},
    r"<omp\.h": {"cpu/parallel", "cpu/dnnl", "cpu/ops"},
    r"<liburing": {"offload/storage"},
    r"<hwloc": {"offload/probe"},
    r"<(pcre2|utf8proc)": {"engine/data"},
    r"<CLI": {"tools"},
}
PUBLIC_MAY = re.compile(r'^("parbuckle/|<[a-z_]+>$)')


def room_of(path):
    best = max((room for room in MAY if path == room or path.startswith(room + "/")), key=len, default=None)
    return best


def resolve(include):
    return "engine/include" if include.startswith("parbuckle/") else room_of(include)


def faults(root):
    for file in sorted(p for top in ("engine", "offload", "kernels", "cpu", "tools", "tests", "examples") for p in (root / top).rglob("*")):
        if file.suffix not in {".h", ".cpp", ".cu", ".cuh", ".c", ".inc"}:
            continue
        path = file.relative_to(root).as_posix()
        room = room_of(path)
        if room is None:
            yield f"{path}: belongs to no known room"
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*(["<][^">]+[">])', line)
            if not found:
                continue
            include = found.group(1)
            where = f"{path}:{number}"
            if include.startswith('"'):
                target = resolve(include[1:-1])
                if target is None:
                    yield f"{where}: {include} is not written from the repository root"
                elif target != room and target not in MAY[room]:
                    yield f"{where}: {room} may not include {target} ({include})"
            if room == "engine/include" and not PUBLIC_MAY.match(include):
                yield f"{where}: public headers include the standard library and each other only ({include})"
            for pattern, rooms in FOREIGN.items():
                if re.match(pattern, include) and room not in rooms and not room.startswith("tests"):
                    yield f"{where}: {include} belongs to {', '.join(sorted(rooms))}"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(found) if found else "layers: every include points down")
    sys.exit(bool(found))
