"""Compares the vectors of encoders by name with those of sentence-transformers, on texts of 5, 200 and 600 tokens.

    python benchmarks/one_name_one_model.py --models DIR [--encoders minilm minilm-l3 mpnet]

DIR has a folder of each name with the model's own files. By name rbench finds it there (`rbench.load_encoder`), and
sentence-transformers opens the folder. The texts are the words of one sentence, drawn again and again with a fixed
seed; their numbers of tokens are given. The JSON holds the largest difference of two numbers of a vector, the same with
the form in which rbench read these encoders before (512 tokens, not normalised), machine and versions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from machine import cores, processor
from sentence_transformers import SentenceTransformer

import rbench

SENTENCE = "the ministers met in a warm city and agreed that every story about old moons needs one more careful reader"
LENGTHS = (5, 200, 600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--encoders", nargs="+", default=["minilm", "minilm-l3", "mpnet"])
    args = parser.parse_args()
    texts = [" ".join(random.Random(n).choices(SENTENCE.split(), k=n)) for n in LENGTHS]
    found = {
        "command": "python benchmarks/one_name_one_model.py --models MODELS",
        "machine": {"processor": processor(), "cores": cores(), "system": platform.system()},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "sentence-transformers", "rbench")},
        },
        "encoders": {name: compared(name, args.models, texts) for name in args.encoders},
    }
    print(json.dumps(found, indent=1))


def compared(name: str, models: Path, texts: list[str]) -> dict[str, Any]:
    theirs = SentenceTransformer(str(models / name), device="cpu")
    wanted = np.concatenate([theirs.encode([text], show_progress_bar=False) for text in texts])
    ours = rbench.load_encoder(name, models=models, device="cpu")
    gaps = np.abs(ours.encode(texts) - wanted).max(axis=1)
    before = rbench.load_encoder(f"{name}[max_length=512,normalize=false]", models=models, device="cpu").encode(texts)
    unit = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (before, wanted)]
    return {
        "max_length": ours.max_length,
        "normalised": bool(ours.settings.normalize),
        "tokens": [len(ids) for ids in ours.tokenizer(texts, add_special_tokens=False)["input_ids"]],
        "largest_difference": [float(f"{gap:.2g}") for gap in gaps],
        "cosine_of_the_form_before": [round(float(one), 6) for one in (unit[0] * unit[1]).sum(axis=1)],
    }


if __name__ == "__main__":
    main()
