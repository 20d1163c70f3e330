"""Tests of how LaTeX tables fit their column. Where pdflatex is installed, they are compiled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rbench.tables.latex import Body, Look, layout

BODY = Body(
    caption="Attack success rate, % (bold: the lowest)",
    header=["Attack", "Encoder", *(f"a long task {i}" for i in range(8))],
    rows=[["TextFooler", "robustsentembed-mini{[}variant=released{]}", *["12.3 {[}10.0, 15.0{]}"] * 8]] * 3,
    groups=[1],
    left=2,
    notes=["Flagged: robustsentembed-minilm-mlm[variant=released]/mini-sentiment/adversarial/textfooler."],
)


def test_the_environment_says_how_wide_and_how_large() -> None:
    text = layout(BODY, Look(wide=True, size="small"))
    assert text.count("{table*}") == 2
    assert text.index("\\small") < text.index("\\begin{tabular}")
    plain = layout(BODY, Look())
    assert "{table*}" not in plain and "\\small" not in plain
    assert "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%" in plain


@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
@pytest.mark.parametrize("look", [Look(), Look(wide=True, size="footnotesize")])
def test_no_box_is_overfull(columns: str, look: Look, tmp_path: Path) -> None:
    compiler = shutil.which("pdflatex")
    if compiler is None:
        pytest.skip("pdflatex is not installed, so the table is not compiled")
    start = f"\\documentclass[{columns}]{{article}}\\usepackage{{booktabs,graphicx}}\\begin{{document}}"
    (tmp_path / "a.tex").write_text(f"{start}\n{layout(BODY, look)}\n\\end{{document}}\n", encoding="utf-8")
    command = [compiler, "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in (tmp_path / "a.log").read_text(encoding="latin-1")
