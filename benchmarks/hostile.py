"""Makes hostile texts and files, and counts what rbench does with them. `reliability.py` runs both parts.

texts   broken UTF-8, NUL, controls, lone surrogates, lines of a megabyte and texts without words, among ordinary texts,
        through every attack in the embedded world: each must get one outcome
files   generated suites, tasks, encoders and attacks: each must load, or be refused with the place of what is wrong
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

VICTIM = Path(__file__).resolve().parent.parent / "rbench" / "packaged" / "robustsentembed-mini-victim"
ORDINARY = "the film is good and the music is a great joy"
_BYTES = bytes(range(256))


def hostile_texts(n: int, seed: int = 0, megabytes: bool = True) -> list[str]:
    """Return `n` texts: the sorts below in turn, every one with random content."""
    rng = random.Random(seed)
    sorts = [*SORTS, *(MEGABYTES if megabytes else ())]
    return [(ORDINARY if i % 5 == 4 else sorts[i % len(sorts)](rng)) for i in range(n)]


SORTS: tuple[Callable[[random.Random], str], ...] = (
    lambda rng: "",
    lambda rng: rng.choice(" \t\n\r\x0b\x0c\x85\xa0\u2028\u2029\u3000") * rng.randrange(1, 9),
    lambda rng: rng.choice(["...", "?!", "-", "'", "\U0001f600\U0001f44d", "\u200d\u200d", "\ufeff", "\u0301\u0301"]),
    lambda rng: f"good{chr(0)}film {chr(0)}",
    lambda rng: "".join(map(chr, rng.choices(range(32), k=9))) + ORDINARY,
    lambda rng: f"{ORDINARY} {chr(rng.randrange(0xD800, 0xE000))} the end",
    lambda rng: bytes(rng.choices(_BYTES, k=40)).decode("utf-8", "surrogateescape"),
    lambda rng: bytes(rng.choices(_BYTES, k=40)).decode("utf-8", "replace"),
    lambda rng: bytes(rng.choices(_BYTES, k=40)).decode("latin-1"),
    lambda rng: f"\u202e{ORDINARY}\u2066 bad \u2069",
    lambda rng: " ".join(chr(rng.randrange(0x0E00, 0xA000)) * rng.randrange(1, 5) for _ in range(9)),
    lambda rng: "e" + "\u0301" * rng.randrange(1, 300),
    lambda rng: "[MASK] [CLS] [SEP] [PAD] [UNK] <s> </s> ## ##ing",
    lambda rng: "good" * rng.randrange(1, 500),
    lambda rng: " ".join(["good"] * rng.randrange(1, 60)),
    lambda rng: "[[good]] {film} %s %d \\ ' \" ; DROP TABLE <script> &amp; $(x) `y`",
)
MEGABYTES: tuple[Callable[[random.Random], str], ...] = (
    lambda rng: "a" * 1_000_000,
    lambda rng: " " * 999_999 + "x",
    lambda rng: "." * 1_000_000,
    lambda rng: "\U0001f600" * 250_000,
)


def attack_all(texts: list[str], attacks: list[str]) -> dict[str, int]:
    """Attack the texts with each attack; return how many have no outcome, or several, and how many calls failed."""
    import rbench
    from rbench.errors import RbenchError

    row = {"lost": 0, "repeated": 0, "crashes": 0, "tracebacks": 0}
    for attack in attacks:
        try:
            found = rbench.attack(
                str(VICTIM),
                texts,
                [0] * len(texts),
                attack,
                resources={"set": "mini", "masked_lm": str(VICTIM.parent / "mini-bert-packaged")},
                workers=1,
                device="cpu",
                progress=False,
            ).outcomes
        except RbenchError as error:
            row["crashes"] += 1
            print(f"{attack}: {str(error)[:500]}", flush=True)
            continue
        except Exception as error:
            row["tracebacks"] += 1
            print(f"{attack}: {type(error).__name__}: {str(error)[:500]}", flush=True)
            continue
        ids = [outcome.example_id for outcome in found]
        row["lost"] += len({str(i) for i in range(len(texts))} - {*ids})
        row["repeated"] += len(ids) - len({*ids})
    return row


SOUND = {
    "suite.yaml": "title: A suite\nencoders: [mini-bert, {simcse-mini: {temperature: 0.1}}, mine]\n"
    "tasks: [mini-sentiment, own]\nattacks: [textfooler, {pwws: {max_words: 3}}, change]\nseeds: [0, 1]\n"
    "num_examples: {mini-sentiment: 10, default: 20}\ntraining: {epochs: 2, learning_rate: 1.0e-3}\nresources: mini\n"
    "tables: [{metric: asr}]\nevaluate: [contrast]\nprofiles:\n  small: {num_examples: 5}\n",
    "mine/tasks/own.yaml": "title: Own\nkind: single\ncolumns: [text]\nlabels: [negative, positive]\n"
    "local: {train: train.csv, test: test.csv}\n",
    "mine/encoders/mine.yaml": "title: Mine\nbase: mini-bert\npooling: mean\ntrain: {objective: simcse, data: "
    "mini-corpus, steps: 3, learning_rate: 1.0e-3}\n",
    "mine/attacks/change.yaml": "title: Change\nrecipe: TextFoolerJin2019\nreference: Jin et al.\nmax_words: 9\n"
    "query_budget: 50\n",
}
_VALUES = (
    "", "null", "~", "true", "no", "-1", "0", "9" * 400, "1e999", ".nan", "-.inf", "0x1F", "2020-01-01", "[]", "{}",
    "[[[[1]]]]", "[" * 300, "{a: {b: {c: 1}}}", "*x", "&x [*x]", "!!python/object:os.system x", "!x y", "'", '"', "|",
    ">\n  text", "? x", "- x", "../../etc/passwd", "/dev/zero", "a" * 5000, "\u202egnp.x", '"\\0\\e[2J"', '"\\ud800"',
    "mini-bert[seed=", "%41", "http://x", "hf://x", "~nobody/x", "[mini-bert, mini-bert]", "{name: x, options: 3}",
)  # fmt: skip


def hostile_files(rng: random.Random) -> dict[str, bytes]:
    """Return the files of a suite by path; one of them has one to three changes."""
    made = {path: text.encode() for path, text in SOUND.items()}
    path = rng.choice([*SOUND])
    lines = SOUND[path].splitlines(keepends=True)
    for _ in range(rng.randrange(1, 4)):
        i = rng.randrange(len(lines)) if lines else 0
        change = rng.randrange(7)
        if not lines or change == 0:
            lines.insert(i, f"{rng.choice(['x', 'title', 'base', 'kind', 'include', 'name'])}: {rng.choice(_VALUES)}\n")
        elif change == 1:
            del lines[i]
        elif change == 2:
            lines.insert(i, lines[i])
        elif change == 3:
            lines[i] = f"{lines[i].partition(':')[0]}: {rng.choice(_VALUES)}\n"
        elif change == 4:
            words = re.split(r"(\W+)", lines[i])
            words[rng.randrange(len(words))] = rng.choice(_VALUES)
            lines[i] = "".join(words)
        else:
            at = rng.randrange(len(lines[i]))
            lines[i] = (
                lines[i][:at] + chr(rng.choice([0, 9, 27, 0x85, 0x202E, 58, 91, 125, 0xFFFE, 0x1F600])) + lines[i][at:]
            )
    content = "".join(lines).encode("utf-8", "surrogatepass")
    if rng.random() < 0.15:
        at = rng.randrange(len(content) + 1)
        content = content[:at] + bytes(rng.choices(_BYTES, k=rng.randrange(4))) + content[at + rng.randrange(9) :]
    made[path] = content
    return made


def load_files(folder: Path, count: int, seed: int = 0) -> dict[str, int]:
    """Load `count` generated suites; return how many were refused without a place, and how many ended otherwise."""
    from rbench.config import load
    from rbench.config.registry import Registry
    from rbench.errors import SuiteError

    rng = random.Random(seed)
    row = {"lost": 0, "tracebacks": 0}
    for path in SOUND:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        for path, content in hostile_files(rng).items():
            (folder / path).write_bytes(content)
        try:
            load(folder / "suite.yaml", registry=Registry([folder / "mine"]))
        except SuiteError as error:
            lines = str(error).splitlines()
            unplaced = [line for line in lines if not re.match(r"(.+:\d+:\d+: |\.\.\. and \d+ more)", line)]
            if unplaced:
                row["lost"] += 1
                print(f"file {number}: without a place: {unplaced[0][:300]!a}", flush=True)
        except Exception as error:
            row["tracebacks"] += 1
            print(f"file {number}: {type(error).__name__}: {str(error)[:300]!a}", flush=True)
    return row
