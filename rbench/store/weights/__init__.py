"""Cache the weights that pretrain and finetune jobs make, by job key.

    CACHE/weights/<kk>/<key>/   an entry: weights, tokenizer, record.json, and manifest.json, which lists its files
    CACHE/locks/<key>.lock      held by the process that makes or removes the entry
    CACHE/checkpoints/<key>/    of a running training, or of a killed one that will be resumed
    CACHE/prepared/             edited corpora and translations, by content; rows of the embedded world, by code
    CACHE/merged/<digest>/      adapters (PEFT) merged into their bases, by the content of both (`encoders.adapters`)
    CACHE/tmp/                  folders of running processes (rbench.system.scratch), and leftovers of killed ones
    CACHE/backends.json         which back-end is the fastest on this machine
    CACHE/speed.json            how fast a core of this machine is (`rbench plan --estimate`)

`cache` reads and writes entries, checks that they are as they were written, and removes what killed processes left.
`inventory` lists what is in the cache, selects what may be removed, and removes it.
"""

from rbench.store.weights.cache import WeightCache, WeightEntry, weights_hash
from rbench.system.scratch import default_cache

__all__ = ["WeightCache", "WeightEntry", "default_cache", "weights_hash"]
