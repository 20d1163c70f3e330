"""Compares the variants of the Geometry attack, with both sources of candidates, with their random controls.

    python benchmarks/geometry_variants.py --models DIR --data DIR --victim FOLDER

The victim is all-MiniLM-L6-v2, fine-tuned cleanly on 1,000 rows of MR with the settings of table1's local profile. It
is kept in FOLDER. Each setting (`printed` and `released`, each with `masked_lm` and `neighbours`) attacks the same --n
test texts. So does `random` with the same options, which give it the same source, cap and budget, once for each of
--control-seeds. Nothing is tuned on these texts: all options are defaults of the variants.

Attack and control are compared text by text, over the texts that the victim classifies rightly: success of the attack
minus the mean success of the controls, with a bootstrap interval over texts, and McNemar's exact test against each
control. Words without a candidate are counted over all words of the original texts that are no stop words.

Writes JSON with machine, versions, command and seeds to --out. Settings in it are not computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
import transformers
from machine import processor

from rbench import config, recipes
from rbench.config.registry import Registry, search_path
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.sentence import SentenceEncoder
from rbench.execution.attacks import sample
from rbench.recipes.engine import AttackEngine
from rbench.schema import Choice, Outcome, ResourceChoice, Training
from rbench.score import attack_scores, wilson
from rbench.system import digests
from rbench.system.processes import cores
from rbench.tasks import Example, TaskData, open_task
from rbench.train.finetune import FinetuneContext, strategy
from rbench.words.resources import Resources, locate
from rbench.words.substitution.candidates import open_source
from rbench.words.substitution.segmentation import find_words

SETTINGS: dict[str, dict[str, str]] = {
    f"{variant}, {source}": {"variant": variant, "source": source}
    for variant in ("printed", "released")
    for source in ("masked_lm", "neighbours")
}
TRAINING = Training(epochs=2, learning_rate=5e-5, max_train=1000)
"""As table1's local profile fine-tunes on MR, on 1,000 rows."""
DRAWS = 10_000


def main() -> None:
    args = parse()
    registry = Registry()
    task = config.load_task("mr", registry)
    data = open_task(task, args.data)
    accuracy = victim(args, data)
    drawn = sample(data.split("test"), args.n, args.seed, task.name)
    document: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {"settings": {}}
    engine = AttackEngine(recipes.EngineConfig(backend=args.backend))
    for label in args.settings:
        options = SETTINGS[label]
        if label in document["settings"]:
            continue
        found = setting(args, registry, engine, drawn, options)
        document["settings"][label] = found
        print(label, json.dumps(found, indent=1), flush=True)
        args.out.write_text(json.dumps(about(args, accuracy, len(drawn)) | document, indent=1) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, action="append", default=[], help="also RBENCH_MODELS")
    parser.add_argument("--data", type=Path, action="append", default=[], help="also RBENCH_DATA")
    parser.add_argument("--victim", type=Path, required=True, help="folder of the victim; made if it is not there")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the fine-tuning, the drawn texts and the attacks")
    parser.add_argument("--control-seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "geometry_variants.json")
    args = parser.parse_args()
    args.models, args.data = search_path(args.models, "RBENCH_MODELS"), search_path(args.data, "RBENCH_DATA")
    return args


def victim(args: argparse.Namespace, data: TaskData) -> float:
    """Fine-tune the victim if its folder is not there. Return its accuracy on validation."""
    if not args.victim.exists():
        base = next(folder / "minilm" for folder in args.models if (folder / "minilm").is_dir())
        clean: Any = strategy("clean")
        context = FinetuneContext(
            encoder=SentenceEncoder.open(base, pooling="mean"),
            data=data,
            training=TRAINING,
            seed=args.seed,
            device="cpu",
            progress=lambda done, of, said: None,
        )
        made = clean.CleanStrategy().run(clean.Options(), context)
        made.victim.save(args.victim, {"max_length": TRAINING.max_length} | made.scores)
    accuracy: float = EncoderClassifier.load(args.victim, "cpu")[1]["validation_accuracy"]
    return accuracy


def setting(
    args: argparse.Namespace, registry: Registry, engine: AttackEngine, drawn: list[Example], options: dict[str, str]
) -> dict[str, Any]:
    """Attack all texts with the Geometry attack and its controls, and compare them."""
    start = time.perf_counter()
    geometry = run(args, registry, engine, drawn, Choice(name="geometry", options=options), args.seed)
    controls = [
        run(args, registry, engine, drawn, Choice(name="random", options=options), seed) for seed in args.control_seeds
    ]
    spec = config.load_attack(Choice(name="geometry", options=options), registry)
    return {
        "options": spec.parameters,
        "geometry": summary(geometry),
        "random": summary([outcome for control in controls for outcome in control]),
        "paired": paired(geometry, controls),
        "words": starved(args, registry, drawn, spec.parameters),
        "seconds": round(time.perf_counter() - start),
    }


def run(
    args: argparse.Namespace, registry: Registry, engine: AttackEngine, drawn: list[Example], choice: Choice, seed: int
) -> list[Outcome]:
    """Return the outcomes in the order of the texts."""
    spec = config.load_attack(choice, registry)
    profile = config.load_resources(ResourceChoice(set="local"), registry)
    path = registry.path("attacks", choice.name)
    places = tuple(locate(profile, spec.needs, args.models).items())
    task = config.load_task("mr", registry)
    todo = recipes.AttackTask(spec, path, task, seed, digests.locate_folder(args.victim), "minilm", profile, places)
    found = {outcome.example_id: outcome for outcome in engine.run(todo, drawn)}
    return [found[example.id] for example in drawn]


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Count outcomes, with the attack success rate's 95% interval (Wilson), and means over attacked texts."""
    won = [o for o in outcomes if o.status == "succeeded"]
    attacked = won + [o for o in outcomes if o.status == "failed"]
    scores = attack_scores(outcomes)
    low, high = wilson(len(won), len(attacked)) or (math.nan, math.nan)
    return {
        "attacked": len(attacked),
        "skipped": sum(o.status == "skipped" for o in outcomes),
        "errored": sum(o.status == "errored" for o in outcomes),
        "succeeded": len(won),
        "asr": round(len(won) / len(attacked), 4),
        "asr_interval": [round(low, 4), round(high, 4)],
        "queries": round(float(scores["queries"].value or math.nan), 1),
        "words_changed": round(float(np.mean([o.num_words_changed for o in attacked])), 2),
        "words_changed_in_successes": round(float(np.mean([o.num_words_changed for o in won])), 2) if won else None,
    }


def paired(geometry: Sequence[Outcome], controls: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    """Compare success text by text, over the texts that were attacked by all."""
    rows = [
        (one.status == "succeeded", [other.status == "succeeded" for other in others])
        for one, *others in zip(geometry, *controls, strict=True)
        if all(outcome.status in ("succeeded", "failed") for outcome in (one, *others))
    ]
    differences = np.array([won - np.mean(others) for won, others in rows])
    generator = np.random.Generator(np.random.PCG64(0))
    means = differences[generator.integers(len(rows), size=(DRAWS, len(rows)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    exact = []
    for k in range(len(controls)):
        only = sum(won and not others[k] for won, others in rows), sum(others[k] and not won for won, others in rows)
        exact.append({"only_geometry": only[0], "only_random": only[1], "p": mcnemar(*only)})
    return {
        "texts": len(rows),
        "difference": round(float(differences.mean()), 4),
        "interval": [round(float(low), 4), round(float(high), 4)],
        "mcnemar": exact,
    }


def mcnemar(one: int, other: int) -> float:
    """McNemar's exact test, two-sided: the number of texts on which only the one, or only the other, succeeded."""
    n, least = one + other, min(one, other)
    return float(f"{min(1.0, 2 * sum(math.comb(n, k) for k in range(least + 1)) / 2**n):.3g}")


def starved(args: argparse.Namespace, registry: Registry, drawn: list[Example], options: Any) -> dict[str, Any]:
    """Count words of the original texts that are no stop words, and those of them that have no candidate."""
    profile = config.load_resources(ResourceChoice(set="local"), registry)
    resources = Resources(profile, args.models, backend=args.backend)
    names = ("source", "candidates", "min_cosine", "unknown")
    source = open_source(resources, **{name: options[name] for name in names})
    slots = [
        (example.texts[0], start, end)
        for example in drawn
        for _, start, end in find_words(example.texts)
        if example.texts[0][start:end].lower() not in resources.stopwords
    ]
    sizes = [len(reply) for reply in source(slots)]
    without = sum(size == 0 for size in sizes)
    return {
        "asked": len(sizes),
        "without": without,
        "share_without": round(without / len(sizes), 4),
        "candidates_where_any": round(sum(sizes) / max(1, len(sizes) - without), 2),
    }


def about(args: argparse.Namespace, accuracy: float, texts: int) -> dict[str, Any]:
    """Say what was measured, where, and how."""
    return {
        "what": "variants of the Geometry attack and their random controls; see benchmarks/geometry_variants.py",
        "reading": READING,
        "command": "python benchmarks/geometry_variants.py --models DIR --data DIR --victim FOLDER"
        f" --n {args.n} --seed {args.seed} --control-seeds {' '.join(map(str, args.control_seeds))}",
        "victim": {
            "encoder": "all-MiniLM-L6-v2",
            "task": "mr",
            "training": TRAINING.model_dump(),
            "validation_accuracy": round(accuracy, 4),
        },
        "texts": texts,
        "seeds": {"victim": args.seed, "texts": args.seed, "geometry": args.seed, "random": args.control_seeds},
        "machine": {"processor": processor(), "cores": cores(), "platform": platform.platform()},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "textattack": version("textattack"),
        },
    }


READING = (
    "These numbers can show whether each variant beats random substitutions with the same source, cap and budget, on "
    "one victim, one task and one draw of test texts; they cannot show which variant is closer to the paper's "
    "numbers, which were made with BERT, another masked LM and other word vectors. A control replaces words at random"
    " and keeps each replacement, so the difference is what it adds to choose words and candidates by the victim's "
    "gradients and answers. The variants differ in their budget as well (20 words; 50 and 0.4 of the text), so their "
    "rates do not compare directions. The bootstrap interval is over texts; victim and masked LM are fixed, and the "
    "masked LM has seen texts of MR without labels."
)


if __name__ == "__main__":
    main()
