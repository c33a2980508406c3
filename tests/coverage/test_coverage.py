"""The coverage table and its pages, from made-up measurements to what is shown."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from onnx2torch_mlir.cli.main import main
from onnx2torch_mlir.coverage import (
    ALL,
    MODES,
    CoverageTable,
    Limit,
    Measured,
    Run,
    Status,
    Support,
    Tally,
    build,
    check_pages,
    html_page,
    in_general,
    load_measured,
    summary,
    write_pages,
)
from onnx2torch_mlir.specs import SpecTable, default_ledger, default_table

RELU = ("ai.onnx", "Relu")
SOFTMAX = ("ai.onnx", "Softmax")


def measured(**tallies: Tally) -> Measured:
    """A run with tallies of versions of Relu in float32 (``v14=Tally(…)``)."""
    result = Measured([Run("a test", 4, 3), Run("the same in another form", 2, 1, lost=1)])
    for name, tally in tallies.items():
        result.count((*RELU, int(name[1:])), {"float"}, "static", tally)
    return result


def support(table: CoverageTable, version: int, of: tuple[str, str] = RELU) -> Support:
    return next(item for item in table.supports if (item.domain, item.op) == of and version in item.numbers)


def test_what_was_measured_counts_for_the_range_of_the_row() -> None:
    table = build(measured=measured(v14=Tally(2, 2, 2, 2, 1)))
    row = default_table().find(*RELU, 14)
    assert row is not None
    for version in (6, 13, 14):
        covered = row.covers(version)
        assert (support(table, version).status() is Status.PARTLY) is covered
        assert support(table, version).measured_at == ((14,) if covered else ())


def test_what_was_not_measured_is_shown_so_and_never_as_supported() -> None:
    table = build(measured=Measured())
    assert {item.status() for item in table.supports} <= {Status.UNMEASURED, Status.REFUSED}
    assert {item.status("dynamic", "float") for item in table.supports} <= {Status.UNMEASURED, Status.REFUSED}
    for level in table.levels():
        assert (level.measured, level.converts, level.lowers, level.runs, level.matches, level.dynamic) == (0,) * 6
    page = html_page(table)
    assert "not-measured" in page
    assert ".matches" not in page.partition("<main>")[2].partition("<script>")[0]
    assert 'class="mark ok"' not in page.partition("<h2>Operators</h2>")[2].partition("</dl>")[2]


def test_measuring_one_dtype_or_mode_says_nothing_about_another() -> None:
    table = build(measured=measured(v14=Tally(3, 3, 3, 3, 3)))
    relu = support(table, 14)
    assert relu.status("static", "float") is Status.MATCHES
    assert relu.status("static", "int") is Status.UNMEASURED
    assert relu.status("dynamic", "float") is Status.UNMEASURED
    assert {"float", "f16", "int"} <= set(relu.declared)
    assert "string" not in relu.declared


@pytest.mark.parametrize(
    ("tally", "status"),
    [
        (Tally(), Status.UNMEASURED),
        (Tally(2), Status.REFUSED),
        (Tally(2, 1), Status.CONVERTS),
        (Tally(2, 2, 1), Status.LOWERS),
        (Tally(2, 2, 2, 1), Status.RUNS),
        (Tally(2, 2, 2, 2, 1), Status.PARTLY),
        (Tally(2, 2, 2, 2, 2), Status.MATCHES),
    ],
)
def test_the_status_is_the_furthest_stage_that_was_reached(tally: Tally, status: Status) -> None:
    assert Status.of(tally) is status


def test_counts_fall_from_stage_to_stage() -> None:
    with pytest.raises(ValueError, match="stage"):
        Tally(1, 0, 1)


def test_a_row_that_refuses_stays_refused_whatever_was_measured() -> None:
    table = build(SpecTable.build([]), measured=measured(v6=Tally(1, 1, 1, 1, 1)))
    assert support(table, 6).refused
    assert support(table, 6).status() is Status.REFUSED
    assert table.level("ai.onnx", 6).matches == 0


def test_levels_count_each_operator_once_at_the_version_of_the_opset() -> None:
    table = build()
    for opset in (1, 9, 13, 28):
        alive = [default_ledger().operator("ai.onnx", op) for op in {item.op for item in default_ledger().versions("ai.onnx")}]
        meant = [operator.version_for(opset) for operator in alive if operator is not None]
        level = table.level("ai.onnx", opset)
        assert level.declared == sum(version is not None and not version.deprecated for version in meant)
        assert level.declared >= level.measured >= level.converts >= level.lowers >= level.runs >= level.matches
        assert level.matches >= level.complete


def test_every_version_of_the_ledger_is_in_exactly_one_row() -> None:
    ledger = default_ledger()
    listed = [(item.domain, item.op, number) for item in build().supports for number in item.numbers]
    versions = [version for domain in ledger.domains() for version in ledger.versions(domain)]
    assert sorted(listed) == sorted((item.domain, item.op, item.since_version) for item in versions)


def test_the_counts_of_what_is_checked_in_add_up() -> None:
    run = load_measured()
    table = build(measured=run)
    for mode in MODES:
        total = sum(cells[ALL, mode].cases for cells in run.tallies.values() if (ALL, mode) in cells)
        assert sum(item.tally(mode).cases for item in table.supports) == total
    for cells in run.tallies.values():
        for (group, mode), tally in cells.items():
            others = [cell for key, cell in cells.items() if key[1] == mode and key[0] != ALL]
            assert tally.cases <= cells[ALL, mode].cases <= sum(cell.cases for cell in others), (group, mode)


def test_limits_of_the_versions_of_a_row_are_its_limits_the_most_frequent_first() -> None:
    run = measured()
    for index, version in enumerate((1, 11)):
        run.limit((*SOFTMAX, version), Limit("O2M-C003", "axis is not known"), 2)
        run.limit((*SOFTMAX, version), Limit("O2M-L001", f"reason {index}", "dynamic"))
    run.limit((*SOFTMAX, 13), Limit("O2M-C001", "of another row"), 9)
    limits = support(build(measured=run), 1, SOFTMAX).limits
    assert limits[0] == (Limit("O2M-C003", "axis is not known"), 4)
    assert [times for _, times in limits] == [4, 1, 1]


def test_a_sentence_is_kept_without_what_is_particular_to_a_model() -> None:
    softmax = next(item for item in default_ledger().versions("ai.onnx") if item.op == "Softmax")
    reason = "'axis' of 'node_7' must be known: input_dim0 in /tmp/model/x.onnx\nmore"
    assert in_general(reason, softmax) == "'axis' of … must be known: a dim in …x.onnx"
    assert in_general("the node's sizes: X_dim1 must equal 'axis' (here X_dim1 = 3)", softmax) == (
        "the node's sizes: a dim must equal 'axis'"
    )
    assert len(in_general("word " * 100, softmax)) <= 240


def test_measurements_are_read_back_as_they_were_saved(tmp_path: Path) -> None:
    run = measured(v6=Tally(1), v14=Tally(2, 2, 2, 2, 1))
    run.count((*RELU, 14), {"float", "int"}, "dynamic", Tally(3, 3))
    run.limit((*RELU, 14), Limit("O2M-C003", "“why”"), 2)
    run.save(tmp_path / "m.json")
    assert load_measured(tmp_path / "m.json") == run
    assert load_measured(tmp_path / "missing.json") == Measured()
    lines = (tmp_path / "m.json").read_text().splitlines()
    assert sum('"Relu"' in line for line in lines) == 2
    again = tmp_path / "again.json"
    load_measured(tmp_path / "m.json").save(again)
    assert again.read_text() == (tmp_path / "m.json").read_text()


def test_a_stale_page_is_found(tmp_path: Path) -> None:
    table = build(measured=measured(v14=Tally(2, 2, 2, 2, 2)))
    paths = (tmp_path / "coverage.html", tmp_path / "coverage.md")
    assert [finding.code for finding in check_pages(table, *paths)] == ["O2M-G001"] * 2
    write_pages(table, *paths)
    assert check_pages(table, *paths) == []
    other = build(measured=measured(v14=Tally(2, 2, 2, 2, 1)))
    assert [finding.case for finding in check_pages(other, *paths)] == ["coverage.html", "coverage.md"]
    assert "line" in check_pages(other, *paths)[0].reason


class _Page(HTMLParser):
    """What a page loads and links to, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.loaded += [f"{tag} {given[name]}" for name in ("src", "data") if name in given]
        if tag == "link":
            self.loaded.append(tag)
        self.links += [given.get("href") or ""] if tag == "a" else []

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_one_file_that_shows_figures_and_limits_in_words() -> None:
    run = measured(v14=Tally(5, 5, 4, 4, 3))
    run.limit((*RELU, 14), Limit("O2M-C003", "a <b> & c"), 2)
    table = build(measured=run)
    text = html_page(table)
    page = _Page(text)
    assert page.loaded == []
    assert "url(" not in text
    assert "@import" not in text
    assert len(text) < 1_500_000
    assert "https://onnx.ai/onnx/operators/onnx__Relu.html" in page.links
    assert "https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html" in page.links
    relu = text.partition('data-op="relu"')[2].partition('class="op"')[0]
    assert "5 cases: 5 convert, 4 lower, 4 run, 3 match" in relu
    assert "a &lt;b&gt; &amp; c" in relu
    assert "all.static.partly-matches all.dynamic.not-measured float.static.partly-matches" in relu
    assert text.count('class="op"') == len(table.operators())
    assert text.count('class="row"') == len(table.supports)


def test_the_summary_lists_what_is_refused_or_not_measured() -> None:
    text = summary(build(SpecTable.build([]), measured=measured()))
    assert "| a test | 4 | 3 | 75.0 |" in text
    assert "Relu 1" in text.partition("## Refused")[2]
    assert "Attention 23" in text.partition("## Not measured")[2].partition("## Refused")[0]


def test_the_pages_in_the_repository_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--check"]) == 0, capsys.readouterr().err


def test_the_command_prints_every_form(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["coverage"]) == 0
    assert "ai.onnx.ml" in capsys.readouterr().out
    assert main(["coverage", "--op", "softm*", "--domain", "ai.onnx"]) == 0
    told = capsys.readouterr().out
    assert "ai.onnx::Softmax" in told
    assert "LogSoftmax" not in told
    assert "version 1, 11" in told
    assert main(["coverage", "--op", "Relu", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["op"] for row in document["rows"]} == {"Relu"}
    assert document["exit_code"] == 0
    assert main(["coverage", "--format", "html", "-o", str(tmp_path / "c.html")]) == 0
    assert (tmp_path / "c.html").read_text() == html_page(build())
    assert main(["coverage", "--format", "json", "-o", str(tmp_path / "c.json")]) == 0
    assert len(json.loads((tmp_path / "c.json").read_text())["rows"]) == len(build().supports)


def test_what_cannot_be_shown_is_a_finding(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["coverage", "--op", "NoSuchOperator"]) == 2
    assert main(["coverage", "--domain", "no.such.domain"]) == 2
    assert main(["coverage", "--format", "html", "-o", str(tmp_path / "missing" / "c.html")]) == 2
    assert "O2M-U004" in capsys.readouterr().err


def test_a_stale_page_exits_with_10(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("onnx2torch_mlir.coverage.pages.HTML_PAGE", tmp_path / "missing.html")
    assert main(["coverage", "--check"]) == 10
