"""Write many RUNs as static pages: an index, a page for each RUN and one for each encoder.

data      what the pages get, as types
contents  the newest verdict on each claim, with what the paper's own numbers say, and the numbers of each encoder
pages     puts all into HTML files that need no script, no server and no network
"""
