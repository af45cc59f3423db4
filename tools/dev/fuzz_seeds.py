#!/usr/bin/env python3
"""fuzz_seeds.py TARGET INTO FOLDER...: copies every file of the folders that has the target's format into INTO, one file per input.
A JSON-lines file gives one input per line. Inputs longer than the fuzzer's limit are left out: cut short they test nothing else."""
import hashlib
import pathlib
import sys

LIMIT = 65536
LINES = 300  # of one file


def belongs(target, path):
    name, parts = path.name, path.parts
    if "corpus" in parts:
        return True
    return {
        "safetensors": name.endswith(".safetensors"),
        "gguf": name.endswith(".gguf"),
        "config": name.endswith("config.json") or "config" in parts[-2:-1] and name.endswith(".json"),
        "tokenizer": name == "tokenizer.json" or "tokenizer" in parts[-2:-1] and name.endswith(".json"),
        "jsonl": name.endswith(".jsonl"),
    }[target]


def main(target, into, folders):
    for folder in map(pathlib.Path, folders):
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or not belongs(target, path):
                continue
            data = path.read_bytes()
            for item in data.splitlines()[:LINES] if path.suffix == ".jsonl" else [data]:
                if len(item) <= LIMIT:
                    (into / hashlib.sha1(item).hexdigest()).write_bytes(item)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:])
