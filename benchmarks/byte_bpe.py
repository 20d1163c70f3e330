"""Train the tokenizer `byte-bpe` of the encoder minilm-bytes-random: RoBERTa's form, bytes joined by BPE.

    python benchmarks/byte_bpe.py ../shared/data/corpus MODELS/byte-bpe

Reads every `text` of the folder's JSON lines, in the order of file names, and writes a tokenizer folder of 16,000
entries. It neither lower-cases nor normalises, so that no character is unknown to it. The config.json beside it only
marks the folder as a model's: the network's sizes are those of the encoder's own file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer
from transformers import RobertaConfig, RobertaTokenizerFast

VOCABULARY_SIZE = 16_000
SPECIAL_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def read_texts(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)["text"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="folder of .jsonl files with a field `text`")
    parser.add_argument("out", type=Path, help="folder to write the tokenizer to")
    arguments = parser.parse_args()
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        read_texts(arguments.corpus), vocab_size=VOCABULARY_SIZE, special_tokens=SPECIAL_TOKENS, show_progress=False
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(arguments.out / "tokenizer.json"))
    RobertaTokenizerFast(tokenizer_file=str(arguments.out / "tokenizer.json"), model_max_length=512).save_pretrained(
        arguments.out
    )
    RobertaConfig(vocab_size=VOCABULARY_SIZE).save_pretrained(arguments.out)


if __name__ == "__main__":
    main()
