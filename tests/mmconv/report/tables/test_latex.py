"""Tables in LaTeX: what is escaped, what is mathematics, and that LaTeX takes them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mmconv.core.types import Cell, Table
from mmconv.report.tables.latex import PAGE_LINES, to_latex

TABLE = Table(
    name="win_rates",
    title="Win rates, % of samples",
    columns=("meaning", "S1", "R2 & all"),
    rows={
        "S2_hat - S2": {
            "meaning": Cell(value="mean of R2, S0 over gpt-4"),
            "S1": Cell(value=-3.514, n=577, missing={"unparsed": 1}, low=-5.5, high=0.005),
            "R2 & all": Cell(value=1.005, n=577),
        },
        "a_b|c": {
            "S1": Cell(value=None, n=0, missing={"timeout": 2, "unparsed": 576}),
            "R2 & all": Cell(value=-1.0),
        },
        "*[half]": {"R2 & all": Cell(value=-0.001)},
    },
    notes=("the authors divide by 577",),
    signed=True,
)

DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs, graphicx, longtable}
\begin{document}
%s
\end{document}
"""


def test_a_table_is_a_float_with_every_sign_escaped() -> None:
    assert to_latex(TABLE).splitlines() == [
        r"% \usepackage{booktabs, graphicx, longtable}",
        r"\begin{table}",
        r"\centering",
        r"\caption{Win rates, \% of samples}",
        r"\label{tab:win_rates}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        r"\begin{tabular}{llrr}",
        r"\toprule",
        r" & meaning & $S_1$ & R2 \& all \\",
        r"\midrule",
        r"$\hat{S}_2 - S_2$ & mean of $R_2$, $S_0$ over gpt-4 & $-$3.51 & $+$1.01 \\*",
        r" &  & {\scriptsize {[}$-$5.50, $+$0.01{]}} &  \\*",
        r" &  & {\scriptsize n=577, 1 missing} & {\scriptsize n=577} \\",
        r"a\_b\textbar{}c &  & -- & $-$1.00 \\*",
        r" &  & {\scriptsize n=0, 578 missing} &  \\",
        r"{*}{[}half{]} &  &  & 0.00 \\",
        r"\bottomrule",
        r"\end{tabular}}",
        "",
        r"\par{\raggedright\footnotesize the authors divide by 577\par}",
        r"\par{\raggedright\footnotesize missing in $\hat{S}_2 - S_2$: $S_1$: 1 with an "
        r"unreadable verdict\par}",
        r"\par{\raggedright\footnotesize missing in a\_b\textbar{}c: $S_1$: 576 with an "
        r"unreadable verdict, 2 timeout\par}",
        r"\end{table}",
    ]


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("R1", "$R_1$"),
        ("S3_tilde, alpha", r"$\tilde{S}_3$, alpha"),
        ("S3_tilde - S3_hat", r"$\tilde{S}_3 - \hat{S}_3$"),
        ("R1, DeepSeek R1", "$R_1$, DeepSeek R1"),
        ("DeepSeek-R1", "DeepSeek-R1"),
        ("Galaxy R1", "Galaxy R1"),
        ("S21 and S2b", "S21 and S2b"),
        ("S1, S2 and R2", "$S_1$, $S_2$ and $R_2$"),
        ("GTEval, N=8", "GTEval, N=8"),
    ],
)
def test_only_the_papers_quantities_are_mathematics(name: str, printed: str) -> None:
    table = Table(name="t", title="t", columns=("c",), rows={name: {"c": Cell(value="x-1")}})
    assert rf"{printed} & x-1 \\" in to_latex(table).splitlines()


def test_commands_and_accents_are_escaped() -> None:
    table = Table(name="t", title=r"a\b~c^d #1 $x$ {y} <z>", columns=(), rows={})
    caption = (
        r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d \#1 \$x\$ \{y\} "
        r"\textless{}z\textgreater{}"
    )
    assert rf"\caption{{{caption}}}" in to_latex(table)


def test_letters_beyond_pdflatex_are_announced() -> None:
    chinese = Table(name="t", title="感知", columns=(), rows={})
    assert to_latex(chinese).splitlines()[1].startswith("% XeLaTeX or LuaLaTeX")
    assert "XeLaTeX" not in to_latex(TABLE)


def test_many_rows_make_a_long_table() -> None:
    first, second, *_ = to_latex(_long()).splitlines()
    assert second.startswith(r"\begingroup")
    # one preamble, be it any table's, does for all
    assert first == to_latex(TABLE).splitlines()[0]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX is installed")
def test_latex_takes_them_and_complains_about_nothing(tmp_path: Path) -> None:
    wide = Table(
        name="wide",
        title="As wide as two pages",
        columns=tuple(f"{accent} of “column” {n}" for n in range(12) for accent in ("é", "S2_hat")),
        rows={"a": {"é of “column” 3": Cell(value=-1.5, n=3, low=-2.0, high=1.0)}},
    )
    source = tmp_path / "all.tex"
    source.write_text(DOCUMENT % "\n".join(map(to_latex, (TABLE, wide, _long()))), "utf-8")
    # the widths of a long table's columns are known to the second run
    for _ in range(2):
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name],
            cwd=tmp_path,
            capture_output=True,
            timeout=300,
        )
        log = (tmp_path / "all.log").read_text("latin-1")
        assert done.returncode == 0, log[-2000:]
    assert "Overfull" not in log
    assert "Float too large" not in log


def _long() -> Table:
    cells = {f"a rather wide column {n}": Cell(value=float(n), n=n) for n in range(5)}
    return Table(
        name="long",
        title="As long as two pages",
        columns=tuple(cells),
        rows={f"row {n}": cells for n in range(PAGE_LINES)},
    )
