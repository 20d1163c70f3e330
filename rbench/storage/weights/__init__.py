"""The content-addressed cache of weights: what pretrain and finetune jobs make, by job key.

    CACHE/weights/<kk>/<key>/   an entry: weights, tokenizer, record.json, and manifest.json, which lists its files
    CACHE/locks/<key>.lock      held by the process that makes the entry, or removes it
    CACHE/checkpoints/<key>/    of a training under way, or of one that was killed and will go on
    CACHE/prepared/             edited corpora and translations, by content; rows of the embedded world, by its code
    CACHE/tmp/                  folders of living processes (rbench.system.scratch), and those that killed ones left
    CACHE/backends.json         which back-end is the fastest on this machine

`cache` has the cache, `manifest` says whether an entry is what was written, `leftovers` removes what nobody works in,
`inventory` lists what is there, and `prune` says what may go and removes it.
"""

from rbench.storage.weights.cache import Entry, WeightCache
from rbench.storage.weights.manifest import weights_hash
from rbench.system.scratch import default_cache

__all__ = ["Entry", "WeightCache", "default_cache", "weights_hash"]
