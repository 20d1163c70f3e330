"""Writes BibTeX for what a RUN used, from the references that registry files state.

A reference reads `Gao, Yao and Chen (2021): SimCSE: simple ... EMNLP. arXiv:2104.08821`; several are separated by
semicolons. Files give family names only, so entries have these. Nothing is added that a file does not state, but the
full names of venues. What reads otherwise becomes an entry with a note, in the file's own words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_COLON = re.compile(r"(?P<authors>[^():;]+) \((?P<year>(?:19|20)\d\d)\): (?P<rest>.+)", re.S)
"""`Pang and Lee (2005): Seeing stars ...`."""
_COMMA = re.compile(r"(?P<authors>[^(),;]*?(?: et al\.| and [^(),;]+?)) (?P<year>(?:19|20)\d\d), (?P<rest>.+)", re.S)
"""`Jin et al. 2020, Is BERT Really Robust?`"""
_ARXIV = re.compile(r"[.,]?\s*arXiv[: ](?P<id>\d{4}\.\d{4,5})\.?\s*$")
_NONE = re.compile(r"none\b|A control of rbench's own")
"""How a reference begins where there is nothing to cite."""
_ACL = "Association for Computational Linguistics"
VENUES: Mapping[str, str] = {
    "AAAI": "AAAI Conference on Artificial Intelligence",
    "ACL": f"Annual Meeting of the {_ACL} (ACL)",
    "ACL-IJCNLP": f"Annual Meeting of the {_ACL} and International Joint Conference on Natural Language Processing "
    "(ACL-IJCNLP)",
    "COLING": "International Conference on Computational Linguistics (COLING)",
    "EMNLP": "Conference on Empirical Methods in Natural Language Processing (EMNLP)",
    "EMNLP: System Demonstrations": "Conference on Empirical Methods in Natural Language Processing (EMNLP): System "
    "Demonstrations",
    "Findings of EMNLP": f"Findings of the {_ACL}: EMNLP",
    "Findings of NAACL": f"Findings of the {_ACL}: NAACL",
    "ICLR": "International Conference on Learning Representations (ICLR)",
    "IWP": "International Workshop on Paraphrasing (IWP)",
    "KDD": "ACM SIGKDD International Conference on Knowledge Discovery and Data Mining (KDD)",
    "LREC": "International Conference on Language Resources and Evaluation (LREC)",
    "NAACL": f"Conference of the North American Chapter of the {_ACL} (NAACL)",
    "NDSS": "Network and Distributed System Security Symposium (NDSS)",
    "NeurIPS": "Advances in Neural Information Processing Systems (NeurIPS)",
    "SemEval": "International Workshop on Semantic Evaluation (SemEval)",
    "*SEM": "Joint Conference on Lexical and Computational Semantics (*SEM)",
}
JOURNALS: Mapping[str, str] = {"CACM": "Communications of the ACM", "LRE": "Language Resources and Evaluation"}
TEXTATTACK = (
    "Morris, Lifland, Yoo, Grigsby, Jin and Qi (2020): TextAttack: a framework for adversarial attacks, data "
    "augmentation, and adversarial training in NLP. EMNLP: System Demonstrations. arXiv:2005.05909"
)
"""What computes all attacks."""
RESOURCES: Mapping[tuple[str, str], str] = {
    ("word_vectors", "textattack-counterfitted"): "Mrkšić et al. (2016): Counter-fitting word vectors to linguistic "
    "constraints. NAACL. arXiv:1603.00892",
    ("synonyms", "wordnet"): "Miller (1995): WordNet: a lexical database for English. CACM 38",
    ("sentence_encoder", "use"): "Cer et al. (2018): Universal Sentence Encoder for English. EMNLP: System "
    "Demonstrations. arXiv:1803.11175",
    ("sentence_encoder", "sentence-transformers"): "Reimers and Gurevych (2019): Sentence-BERT: sentence embeddings "
    "using Siamese BERT-networks. EMNLP. arXiv:1908.10084",
}
"""What attacks look up, by kind of resource and kind of source. A folder of a user's own is not known."""
_OWN = "{rbench}: a robustness benchmarking harness for sentence encoders"
_SIGNS = {
    "\\": r"{\textbackslash}",
    "{": r"{\textbraceleft}",  # BibTeX counts braces, and an escaped one too
    "}": r"{\textbraceright}",
    "~": r"{\textasciitilde}",
    "^": r"{\textasciicircum}",
    **{sign: f"\\{sign}" for sign in "&%$#_"},
}


class _Parts(NamedTuple):
    """A reference, taken apart."""

    authors: str
    year: str
    title: str
    venue: str
    arxiv: str


def bibtex(used: Sequence[tuple[str, str]], version: str) -> str:
    """Return an entry for each reference, and one for rbench.

    Args:
        used: pairs of a reference, as a file states it, and the name of what it is of.
        version: the version of rbench that computed the results; empty: unknown.
    """
    found: dict[str, dict[str, None]] = {}
    for reference, name in used:
        for one in _split(reference):
            found.setdefault(one, {})[name] = None
    keys: set[str] = {"rbench"}
    made = [_entry(one, ", ".join(names), keys) for one, names in found.items()]
    own = {"author": "{The rbench developers}", "title": _OWN, "year": "2026"}
    own |= {"note": f"Version {_tex(version)}"} if version else {}
    return "\n\n".join([*made, _written("misc", "rbench", own)])


def _split(reference: str) -> list[str]:
    """Return the single references. What follows a citation and is none, such as the name of a recipe, is left out."""
    if _NONE.match(reference):
        return []
    parts = [" ".join(part.split()) for part in reference.split("; ")]
    cited = [part for part in parts if _parts(part) is not None]
    return cited or [" ".join(reference.split())]


def _parts(reference: str) -> _Parts | None:
    """Take a reference apart; None where it reads otherwise."""
    match = _COLON.fullmatch(reference) or _COMMA.fullmatch(reference)
    if match is None:
        return None
    rest, arxiv = match["rest"].strip(), ""
    if (on_arxiv := _ARXIV.search(rest)) is not None:
        rest, arxiv = rest[: on_arxiv.start()], on_arxiv["id"]
    rest = rest.rstrip(".")
    title, _, venue = rest.rpartition(". ")
    if venue not in VENUES and venue.partition(" ")[0] not in JOURNALS:
        title, venue = rest, ""
    return _Parts(match["authors"].strip(), match["year"], title.strip(), venue, arxiv)


def _entry(reference: str, names: str, keys: set[str]) -> str:
    """Return the entry of a single reference, with a key that is not in `keys`, and add the key."""
    parts, of = _parts(reference), {"annote": _tex(f"used for {names}")}
    if parts is None:
        return _written("misc", _free("used", keys), {"note": _tex(reference)} | of)
    first = re.match(r"[\w-]+", parts.authors)
    word = re.search(r"\w+", parts.title)
    key = f"{first[0].lower() if first else ''}{parts.year}{word[0].lower() if word else ''}"
    fields = {"author": _authors(parts.authors), "title": _title(parts.title), "year": parts.year}
    kind = "misc"
    if parts.venue in VENUES:
        kind, fields = "inproceedings", fields | {"booktitle": _tex(VENUES[parts.venue])}
    elif parts.venue:
        journal, _, volume = parts.venue.partition(" ")
        kind, fields = "article", fields | {"journal": _tex(JOURNALS[journal])}
        fields |= {"volume": volume} if volume else {}
    if parts.arxiv:
        fields |= {"eprint": parts.arxiv, "archivePrefix": "arXiv"}
    plain = re.sub(r"[^a-z0-9-]", "", unicodedata.normalize("NFKD", key))
    return _written(kind, _free(plain or "used", keys), fields | of)


def _written(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}\n}}"


def _free(key: str, keys: set[str]) -> str:
    free, number = key, 2
    while free in keys:
        free, number = f"{key}-{number}", number + 1
    keys.add(free)
    return free


def _authors(text: str) -> str:
    """Return authors as BibTeX wants them: `Pang and Lee`, `Gardner and others`."""
    several = re.split(r", | and ", text.removesuffix(" et al."))
    # A comma parts family and given names, and none can have three. In braces it is a sign like others.
    names = [f"{{{_tex(name)}}}" if "," in name else _tex(name) for name in several if name.strip()]
    return " and ".join([*names, *(["others"] if text.endswith(" et al.") else [])])


def _title(text: str) -> str:
    """Return a title whose words keep their capitals, which BibTeX styles would take from them."""
    words = text.split(" ")
    kept = [bool(re.search(r"[A-Z]", word if i else word[1:])) for i, word in enumerate(words)]
    return " ".join(f"{{{_tex(word)}}}" if keep else _tex(word) for word, keep in zip(words, kept, strict=True))


def _tex(text: str) -> str:
    """Escape what BibTeX and LaTeX read as signs."""
    return "".join(_SIGNS.get(sign, sign) for sign in text)
