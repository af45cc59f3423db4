#!/usr/bin/env python3
"""kernel_resources.py CUOBJDUMP ARCHIVE CAPABILITIES: what each kernel takes on each architecture, and whether that is within bounds.

A kernel may use 128 registers per thread (two blocks of 256 threads then fit on a multiprocessor) and no memory of its own for
spilled ones. Stack is allowed where CUDA's own float64 functions need it."""
import collections
import re
import subprocess
import sys

MOST_REGISTERS = 128
OWN_STACK = ("(anonymous namespace)::Table",)  # sine and cosine of large float64 angles


def kernels(dump):
    """(architecture, kernel, registers, stack, shared, local) of each function in cuobjdump's text."""
    architecture, name = None, None
    for line in dump.splitlines():
        if found := re.search(r"arch = (sm_\d+)", line):
            architecture = found.group(1)
        elif found := re.search(r"Function (.*):$", line):
            name = found.group(1).strip()
        elif found := re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", line):
            yield (architecture, name, *map(int, found.groups()))


def short(name):
    inner = re.search(r"run_kernel<(.*?)>\(", name)
    return re.sub(r"parbuckle::(cuda|simt)::|\(anonymous namespace\)::", "", inner.group(1) if inner else name)


def main(cuobjdump, archive, capabilities):
    dump = subprocess.run([cuobjdump, "--dump-resource-usage", archive], capture_output=True, text=True, check=True).stdout
    plain = subprocess.run(["c++filt"], input=dump, capture_output=True, text=True, check=True).stdout
    table = collections.defaultdict(dict)
    faults = []
    for architecture, name, registers, stack, shared, local in kernels(plain):
        table[short(name)][architecture] = f"{registers}/{stack}"
        if registers > MOST_REGISTERS or local > 0 or (stack > 0 and not any(own in name for own in OWN_STACK)):
            faults.append(f"{architecture} {short(name)}: {registers} registers, {stack} bytes of stack, {local} of local memory")
    wanted = [f"sm_{capability}" for capability in capabilities.split(",")]
    print("registers/stack bytes".ljust(56), *(architecture.rjust(9) for architecture in wanted))
    for name in sorted(table):
        print(name[:56].ljust(56), *(table[name].get(architecture, "-").rjust(9) for architecture in wanted))
        faults += [f"{name}: missing for {architecture}" for architecture in wanted if architecture not in table[name]]
    print(f"{len(table)} kernels")
    if not table:
        faults.append(f"{archive}: no kernel was found")
    for fault in faults:
        print("out of bounds:", fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
