"""What stands behind attacks: word vectors, synonyms, a masked LM, a sentence encoder, a POS tagger and stop words.

A profile (`standard.yaml`, `standard-use.yaml`, `local.yaml`, `mini.yaml` beside this file) binds each of them to a
`Source`: a `kind`, which is a loader below, and a `name`, which is what it loads. A folder is looked for by name on the
model search path (--models, RBENCH_MODELS); a path with a separator in it is taken as it is.

| resource         | kind                       | name |
|------------------|----------------------------|------|
| word_vectors     | `textattack-counterfitted` | none: the counter-fitted PARAGRAM vectors in TextAttack's cache |
|                  | `folder`                   | folder with `vectors.npy` + `words.txt`, or with a word2vec file |
|                  | `mini`                     | none: the embedded world |
| synonyms         | `wordnet`                  | none: one-word lemma names of all synsets of a word, as PWWS |
|                  | `folder`                   | folder with `synonyms.txt`: two words a line, both ways |
|                  | `mini`                     | none |
| masked_lm        | `hub`                      | a hub id (a folder of that name on the search path wins) |
|                  | `folder`                   | a transformers folder with a masked-LM head |
|                  | `encoder`                  | a registry encoder that a pretrain job of the same run makes |
| sentence_encoder | `sentence-transformers`    | a hub id or a folder |
|                  | `use`                      | none, or a folder: the Universal Sentence Encoder (TensorFlow) |
|                  | `mini`                     | none |
| pos_tagger       | `nltk`                     | none: averaged perceptron, universal tag set |
|                  | `mini`                     | none |
| stopwords        | `nltk`                     | none: NLTK's English list |
|                  | `mini`                     | none |

Behind `synonyms` of the kinds `wordnet` and `mini` stands a thesaurus too: hypernyms, antonyms and inflections, by part
of speech (`Resources.thesaurus`).

Where a kind that takes no name is given one (a suite's override of one resource), the name means a folder.

`locate` finds them and names everything that is missing at once; `checks` is the same for `rbench doctor`; `Resources`
loads each on first use. Importing this package, `locate` and `checks` do not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.resources.locate import checks, locate

if TYPE_CHECKING:
    from rbench.resources.runtime import Resources

__all__ = ["Resources", "checks", "locate"]


def __getattr__(name: str) -> Any:
    if name == "Resources":
        from rbench.resources.runtime import Resources

        return Resources
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
