"""Data in the page: it ends no element, and comes back as it was."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from rbench.report.data import PageFact, PageNames, RunReport
from rbench.report.html import SCRIPTS, render_page
from rbench.system.console import harmless

hostile = st.sampled_from(
    ["</script><script>alert(1)</script>", "<!--", "&lt;", "\u2028", "]]>", "'\"", "\u202e", "\ud800"]
)


@settings(max_examples=20)
@given(st.lists(hostile, min_size=1, max_size=4).map("".join))
def test_data_comes_back_whatever_it_holds(text: str) -> None:
    name = text.encode("utf-8", "replace").decode()
    made = render_page(
        RunReport(
            title="t", suite=name, names=PageNames(labels={"task": (name,)}), facts=(PageFact(name="f", value=name),)
        )
    )
    (data,) = re.findall(r'id="data">(.*?)</script>', made, re.S)
    found = json.loads(data)
    assert not set("<>&") & set(data)
    assert (found["suite"], found["names"]["labels"]) == (name, {"task": [name]})
    assert made.count("</script>") == 4 + len(SCRIPTS)
    assert f"<dd>{escape(harmless(name))}</dd>" in made


def test_the_policy_names_each_script_and_no_other() -> None:
    made = render_page(RunReport(title="t", suite="s"))
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="(.*?)"', made)[0])
    scripts = re.findall(r'<script(?: type="module")?>(.*?)</script>', made, re.S)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert re.findall(r"'sha256-(.*?)'", policy) == hashes and len(hashes) == 2 + len(SCRIPTS)
