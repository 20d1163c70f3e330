"""The resources of attacks: word vectors, synonyms, a masked LM, a sentence encoder, a POS tagger and stop words.

A resource set (`standard.yaml`, `standard-use.yaml`, `local.yaml`, `independent.yaml`, `mini.yaml` beside this file)
gives a `Source` for each resource: a `kind`, which is a loader of the table, and a `name`, which says what to load. A
folder is looked for by name on the model search path (--models, RBENCH_MODELS); a name with a separator may also be a
path.

| resource         | kind                       | name |
|------------------|----------------------------|------|
| word_vectors     | `textattack-counterfitted` | none: the counter-fitted PARAGRAM vectors in TextAttack's cache |
|                  | `folder`                   | folder with `vectors.npy` + `words.txt`, or with a word2vec file |
|                  | `mini`                     | none: the embedded world |
| synonyms         | `wordnet`                  | none: one-word lemma names of all synsets of a word, as in PWWS |
|                  | `folder`                   | folder with `synonyms.txt`: two words a line, synonyms of each other |
|                  | `wordnet-and-folder`       | such a folder; the synonyms of a word in either |
|                  | `mini`                     | none |
| masked_lm        | `hub`                      | a hub id; a folder of that name on the search path is preferred |
|                  | `folder`                   | a transformers folder with a masked-LM head |
|                  | `encoder`                  | a registry encoder that a pretrain job of the same run makes |
| sentence_encoder | `sentence-transformers`    | a hub id or a folder |
|                  | `use`                      | none, or a folder: the Universal Sentence Encoder (TensorFlow) |
|                  | `mini`                     | none |
| pos_tagger       | `nltk`                     | none: averaged perceptron, universal tag set |
|                  | `mini`                     | none |
| stopwords        | `nltk`                     | none: NLTK's English list |
|                  | `mini`                     | none |

If a suite gives a name to a kind that takes none, the name means a folder.

`synonyms` of the kinds `wordnet` and `mini` also provide a thesaurus with hypernyms, antonyms and inflections by part
of speech (`Resources.thesaurus`).

`locate` finds resources, and names everything that is missing in one error. `checks` tells a line for each.
`Resources` loads each resource on first use. Importing this package does not import torch, nor do `locate` and
`checks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.words.resources.locate import checks, locate

if TYPE_CHECKING:
    from rbench.words.resources.runtime import Resources

__all__ = ["Resources", "checks", "locate"]


def __getattr__(name: str) -> Any:
    if name == "Resources":
        from rbench.words.resources.runtime import Resources

        return Resources
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
