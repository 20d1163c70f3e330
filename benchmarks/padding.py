"""Measures whether a padded row has the bits of the same row alone, and what a network takes for few rows.

    python benchmarks/padding.py --victim FOLDER

Attacks ask for few texts of one length at once, so batches are small (`questions.py`). Padding would make them larger.
For each back-end, rows of several lengths are computed alone and beside a longer one, with one thread, and compared bit
by bit. The CPU seconds of batches of 1 to 64 rows of 20 tokens say what larger batches could save.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from machine import processor

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.classify import build_network
from rbench.encoders.inference import Network, TokenRow, backends, build_tensors

LENGTHS = (5, 7, 9, 13, 17, 18, 19, 21, 23, 29, 33)
ROWS = (1, 2, 4, 8, 16, 32, 64)
TOKENS = 20
ROUNDS = 5


def row(length: int, seed: int) -> TokenRow:
    """Return random token ids."""
    drawn = torch.randint(1000, 20000, (length,), generator=torch.Generator().manual_seed(seed))
    return tuple(drawn.tolist()), (0,) * length


def padded(network: Network) -> dict[str, Any]:
    """Compare each row beside a longer one, to which it is padded, with the row alone."""
    same, deviations = 0, []
    for length in LENGTHS:
        (alone,) = network([row(length, 0)])
        for width in sorted({length + 1, *(-(-length // step) * step for step in (4, 8, 16))} - {length}):
            given = build_tensors([row(length, 0), row(width, 1)], network.pad, 1, network.device)
            beside = network._call(given)[0]
            same += torch.equal(alone, beside)
            deviations.append(float((alone - beside).abs().max()))
    return {"compared": len(deviations), "same_bits": same, "largest_deviation": float(f"{max(deviations):.2g}")}


def timed(network: Network) -> dict[str, float]:
    """Return microseconds of CPU time for each token, by number of rows."""
    found = {}
    for rows in ROWS:
        given = build_tensors([row(TOKENS, i) for i in range(rows)], network.pad, 1, network.device)
        network._call(given)
        took = []
        for _ in range(max(ROUNDS, 40 // rows)):
            start = time.process_time()
            network._call(given)
            took.append(time.process_time() - start)
        found[str(rows)] = round(min(took) / rows / TOKENS * 1e6, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--victim", type=Path, required=True, help="a folder that EncoderClassifier.save wrote")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "padding.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    classifier, _ = EncoderClassifier.load(args.victim, "cpu")
    found = {}
    for name in backends.usable(torch.device("cpu")):
        network = build_network(classifier, backend=name)
        found[name] = padded(network) | {"microseconds_per_token_by_rows": timed(network)}
        print(name, json.dumps(found[name]), flush=True)
    about = {"processor": processor(), "torch": torch.__version__, "threads": 1}
    document = {"what": "padded rows; see benchmarks/padding.py", "machine": about, "backends": found}
    args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
