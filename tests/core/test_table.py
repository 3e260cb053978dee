"""Tables as text, and what each form makes of a cell."""

from tfr_ext.core.table import DOWN, Cell, Table

TABLE = Table(
    ["", "a_b"],
    [["x & <y>", Cell("0.5", DOWN, bold=True, below="<0.1")], ["z", "-"]],
    ["50% is a_b."],
)


def test_text_marks_the_bold_and_aligns():
    plain, *bold = (TABLE.to_text(bold).split("\n") for bold in (False, True))
    assert plain == ["         a_b", "x & <y>  0.5*↓", "z        -", "50% is a_b."]
    assert bold[0][1] == "x & <y>  \033[1m0.5↓\033[0m"
    right = Table(["metric", "test", "much longer"], [["map", "0.5", "1"]], right=True)
    assert right.to_text().split("\n") == [
        "metric      test  much longer",
        "map          0.5            1",
    ]


def test_each_form_escapes():
    markdown, latex, page = TABLE.to_markdown(), TABLE.to_latex(), TABLE.to_html()
    assert r"| x \& \<y\> | **0.5**↓ |" in markdown and r"|  | a\_b |" in markdown
    assert r"x \& \textless{}y\textgreater{} & \textbf{0.5}$\downarrow$ \\" in latex
    assert r"\caption{50\% is a\_b.}" in latex
    assert '<th scope="row">x &amp; &lt;y&gt;</th><td><b>0.5</b>↓<br>' in page
    assert '<span class="dim">&lt;0.1</span></td>' in page
    assert page.endswith("<p>50% is a_b.</p>")
