"""Records, cells and counts for tests of tables; `conftest` has the RUN that they share."""

from __future__ import annotations

from statistics import mean

from rbench.schema import AttackJob, Job, Outcome, Provenance, Record, Score
from rbench.store.runs import RunStore
from rbench.tables.shapes import PaperCell
from tests.tables.conftest import make_outcomes, make_record


def make_job_record(job: Job) -> Record:
    """The record of any job as done: of an attack, one of `make_outcomes`."""
    if isinstance(job.spec, AttackJob):
        return make_record(job, make_outcomes(job))
    scores = (Score(name="test_accuracy", value=0.5, n=20),) if job.measuring else ()
    return Record(job=job, status="complete", scores=scores, provenance=Provenance(rbench="0"))


def make_paper_cells(*texts: str) -> list[PaperCell]:
    return [PaperCell(text) for text in texts]


def count_metric(outcomes: list[Outcome], metric: str) -> float:
    """The metric by counting, written without a look at rbench.score."""
    sound = [o for o in outcomes if o.status != "errored"]
    attacked = [o for o in sound if o.status != "skipped"]
    hit = [o for o in attacked if o.status == "succeeded"]
    return {
        "asr": lambda: len(hit) / len(attacked),
        "oracle_asr": lambda: sum(o.oracle_label == 1 for o in hit) / len(attacked),
        "aua": lambda: (len(attacked) - len(hit)) / len(sound),
        "clean": lambda: len(attacked) / len(sound),
        "queries": lambda: mean(o.num_queries for o in attacked),
        "seconds": lambda: mean(o.seconds for o in attacked),
        "perturbed": lambda: mean(o.perturbed_share for o in hit if o.perturbed_share),
    }[metric]()


def find_attack_jobs(store: RunStore, attack: str, encoder: str, task: str) -> list[Job]:
    plan = store.plan()
    assert plan is not None
    return [job for job in plan.jobs if job.parts == (encoder, task, "clean", attack)]
