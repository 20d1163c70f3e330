"""The page in a real browser: from a file, without a network, with the policy that it states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from tests.browser import Axe, Opened
from tests.report.conftest import AREA, LETTERS, LONG, SCRIPT, steps, write_run


def test_it_loads_without_a_network_and_the_console_stays_empty(opened: Opened) -> None:
    assert opened.go().said == []
    loaded = "performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:'))"
    assert opened.page.evaluate(loaded) == []


@pytest.mark.parametrize("metric", ["asr", "aua", "clean", "queries", "perturbed", "oracle_asr"])
def test_every_number_is_that_of_the_table(opened: Opened, run: Path, metric: str) -> None:
    opened.state(f"metric={metric}")
    shown = {
        tuple(json.loads(key)): (value, text)
        for key, value, text in opened.all(
            "#heat td[data-key]", "one => [one.dataset.key, one.dataset.value, one.innerText]"
        )
        if json.loads(key)[3]
    }
    stored = json.loads(api.table(run, metric=metric, fmt="json"))["cells"]
    assert shown.keys() == {(c["attack"], c["encoder"], c["finetune"], c["task"]) for c in stored}
    percent = metric != "queries"
    for c in stored:
        value, text = shown[c["attack"], c["encoder"], c["finetune"], c["task"]]
        if c["value"] is None:
            assert (value, text.strip()) == (None, "n/a")
        else:
            assert float(value) == c["value"]
            assert text.strip() == f"{100 * c['value'] if percent else c['value']:.1f}"


def test_averages_and_marks_are_those_of_the_table(opened: Opened, run: Path) -> None:
    opened.state("metric=asr")
    lines = [line.split("|")[1:-1] for line in api.table(run, names=True).splitlines() if line.startswith("| ")]
    rows = [line for line in lines[1:] if line[1].strip()]
    averages = {row[1].strip(): row[-1].strip() for row in rows}
    shown = opened.all(
        "#heat td[data-key]",
        "one => [one.dataset.key, one.innerText.trim(), one.classList.contains('best')]",
    )
    found = {json.loads(key)[1]: f"**{text}**" if best else text for key, text, best in shown if not json.loads(key)[3]}
    assert found == averages


def test_a_column_sorts_up_and_down(opened: Opened) -> None:
    opened.go()
    names = "#heat tbody th"
    first = opened.all(names)
    column = '#heat td[data-key=\'["pwws","{}","clean","mr"]\']'
    values = {name: float(opened.page.get_attribute(column.format(name), "data-value")) for name in LETTERS}
    assert values["minilm"] > values["bert_b"]
    button = opened.page.locator("#heat thead tr:nth-child(2) button").first
    button.click()
    assert opened.all(names)[0].startswith("minilm")
    button.click()
    assert opened.all(names)[0].startswith("bert_b")
    button.click()
    assert opened.all(names) == first


def test_a_click_on_a_number_filters_the_examples_and_a_second_undoes_it(opened: Opened) -> None:
    opened.go()
    button = opened.page.locator('#heat td[data-key=\'["pwws","bert_b","clean","mini_nli"]\'] button')
    button.click()
    assert opened.text("#count").startswith("12 of 48")
    assert opened.page.evaluate("report.filtered().every(one => one.encoder === 'bert_b' && one.task === 'mini_nli')")
    opened.page.locator('#heat td[data-key=\'["pwws","bert_b","clean","mini_nli"]\'] button').click()
    assert opened.text("#count").startswith("48 of 48")


@pytest.mark.parametrize(
    ("hash", "n"),
    [
        ("status=succeeded", 2 * (6 + 4)),
        ("status=skipped&encoder=minilm", 2),
        ("words=0", 4),
        ("words=1-", 44),
        ("q=GOOD+film", 32),
        ("q=test%3A11", 4),
        ("q=%3Cscript", 4),
        ("task=mr&attack=pwws&encoder=bert_b&status=failed", 7),
        ("q=nowhere", 0),
    ],
)
def test_filters(opened: Opened, hash: str, n: int) -> None:
    assert opened.state(hash).text("#count").startswith(f"{n} of 48")


def test_the_page_opens_on_a_success_that_moved_the_victim_most(opened: Opened) -> None:
    opened.go()
    order = opened.page.evaluate("report.filtered().map(one => [one.status, one.drop, one.changed])")
    kinds = ["succeeded", "failed", "skipped", "errored"]
    assert order == sorted(
        order, key=lambda one: (kinds.index(one[0]), -(one[1] if one[1] is not None else -1), one[2])
    )
    assert opened.text("#detail .status") == "succeeded"
    assert opened.text("#rows tbody tr:first-child .status") == "succeeded"


def test_no_name_of_a_row_is_cut(opened: Opened) -> None:
    opened.go()
    cut = "one => one.scrollWidth > one.clientWidth || getComputedStyle(one).textOverflow === 'ellipsis'"
    assert opened.all("#heat tbody .name", cut).count(True) == 0


def test_texts_are_shown_as_texts(opened: Opened) -> None:
    opened.go().state("task=mr&encoder=minilm&q=test:0")
    side = "#detail .side:first-child .data"
    assert opened.text(side) == SCRIPT
    assert opened.state("task=mr&encoder=minilm&q=test:1&status=succeeded").text(side) == AREA
    opened.state("task=mr&encoder=minilm&q=safe")
    assert opened.text(side) == "safeU+202Etxet" and "\u202e" not in opened.page.inner_text("body")
    opened.state("task=mr&encoder=minilm&q=test:3")
    assert len(opened.page.text_content(side)) == len(LONG)
    assert opened.page.evaluate("document.querySelectorAll('#examples script, #examples textarea').length") == 0
    assert opened.said == []


def test_changed_words_are_marked(opened: Opened) -> None:
    opened.state("task=mr&encoder=minilm&q=film+4")
    assert opened.all("#detail del") == ["good"] and opened.all("#detail ins") == ["fine"]
    told = json.loads(opened.page.evaluate("report.asJson(report.filtered()[0])"))
    assert (told["original"], told["perturbed"]) == ({"text": "a good film 4"}, {"text": "a fine film 4"})
    assert (told["example_id"], told["status"], told["num_queries"]) == ("test:4", "failed", 14)


def test_a_link_opens_the_same_view(opened: Opened) -> None:
    opened.go()
    opened.page.select_option("#examples .fields select >> nth=0", "bert_b")
    opened.page.check("#metrics input[value=queries]")
    opened.page.keyboard.press("j")
    opened.page.keyboard.press("j")
    before = [opened.text("#count"), opened.text("#heat"), opened.text("#detail")]
    hash = opened.page.evaluate("location.hash")
    opened.go(hash)
    assert [opened.text("#count"), opened.text("#heat"), opened.text("#detail")] == before
    assert "metric=queries" in hash and "encoder=bert_b" in hash


def test_next_previous_and_random_stay_among_the_filtered(opened: Opened) -> None:
    opened.go("#status=skipped")
    of = "#detail article"
    indices = set(opened.page.evaluate("report.filtered().map(one => String(one.index))"))
    seen = []
    for _ in range(4):
        opened.page.click("text=Next ›")
        seen.append(opened.page.get_attribute(of, "data-index"))
    assert set(seen) == indices and len(seen) == len(indices)
    opened.page.click("text=Next ›")
    assert opened.page.get_attribute(of, "data-index") == seen[0], "after the last comes the first"
    opened.page.click("text=‹ Previous")
    opened.page.click("text=‹ Previous")
    assert opened.page.get_attribute(of, "data-index") == seen[-2]
    opened.page.click("text=Random")
    assert opened.page.get_attribute(of, "data-index") in indices


def test_a_link_to_an_example_opens_the_page_of_the_list_that_has_it(opened: Opened) -> None:
    last = opened.go().page.evaluate("report.filtered().at(-1).index")
    assert opened.go(f"#at={last}").all("#rows tr.chosen", "one => one.dataset.index") == [str(last)]
    assert "page 2 of 2" in opened.text("#count")
    opened.page.click("text=‹ earlier")
    assert "page 1 of 2" in opened.text("#count") and "page=0" in opened.page.evaluate("location.hash")
    opened.page.click("text=Next ›")
    first = opened.page.evaluate("report.filtered()[0].index")
    assert opened.all("#rows tr.chosen", "one => one.dataset.index") == [str(first)], "after the last comes the first"


def test_two_encoders_are_compared(opened: Opened, run: Path) -> None:
    opened.go()
    found = api.compare(run, between=("minilm", "bert_b"))
    cell = found.cells[0]
    d = cell.difference
    table = [int(text) for text in opened.all(".fourfold tbody td")]
    pairs = list(zip(LETTERS["minilm"], LETTERS["bert_b"], strict=True))
    assert table == [pairs.count(("s", "s")), pairs.count(("s", "f")), pairs.count(("f", "s")), pairs.count(("f", "f"))]
    assert sum(table) == d.n
    assert "exact McNemar" in opened.text("#paired") and f"ASR {100 * d.value:.1f} points" in opened.text("#paired")
    assert [t.partition(":")[2].strip() for t in opened.all("#paired h4")] == [str(d.only_one), str(d.only_other)]
    lists = opened.all("#paired .fell", "one => one.children.length")
    assert lists == [d.only_one, d.only_other]
    opened.page.locator("#paired .fell button").first.click()
    one = cell.fell_only[0].outcome.example_id
    assert one in opened.text("#detail") and "succeeded" in opened.text("#detail")


def test_an_encoder_is_never_compared_with_itself(opened: Opened) -> None:
    opened.go("#a=bert_b&b=bert_b")
    assert opened.all("#compare select", "one => one.value") == ["bert_b", "minilm"]


def test_dark_mode_follows_the_system_and_the_button(opened: Opened) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = opened.go().page.evaluate(colour)
    opened.page.emulate_media(color_scheme="dark")
    dark = opened.page.evaluate(colour)
    assert dark != light
    opened.page.click("#theme")
    assert opened.page.evaluate(colour) == light
    opened.page.emulate_media(color_scheme="light")


def test_a_slider_shows_the_text_and_the_answer_after_each_step(opened: Opened) -> None:
    opened.go("#task=mr&encoder=minilm&q=film+8")
    slider = opened.page.get_by_label("Steps of the attack")
    assert (slider.get_attribute("max"), slider.input_value()) == ("2", "2")
    assert (opened.text("#step-text h3"), opened.text("#step-text p")) == ("After the attack", "a fine film 8")
    slider.focus()
    opened.page.keyboard.press("ArrowLeft")
    assert opened.text("#step-text p") == "a great film 8"
    assert opened.all("#step-text ins.now") == ["great"] and opened.all("#step-said del") == ["good"]
    said = slider.get_attribute("aria-valuetext")
    assert said == "Step 1 of 2: probability of pos 0.75, predicted pos" and said in opened.text("#step-said")
    opened.page.keyboard.press("ArrowLeft")
    assert opened.text("#step-text p") == "a good film 8" and not opened.all("#step-text ins")
    assert opened.all(".bars i", "one => one.style.height") == ["91%", "75%", "40%"]
    assert opened.page.evaluate("document.activeElement.id") == "step"
    opened.page.locator(".bars .step").nth(1).click()
    hash = opened.page.evaluate("location.hash")
    assert opened.go(hash).text("#step-text p") == "a great film 8"
    step = hash.partition("step=")[2].partition("&")[0]
    opened.state(f"task=mr&encoder=minilm&q=film+10&step={step}")
    assert opened.text("#step-text p") == "a fine film 10", "a step is that of one example"


def test_without_steps_there_is_no_slider_and_the_page_says_so(opened: Opened) -> None:
    opened.go("#task=mr&encoder=minilm&q=film+4")
    assert "No steps are shown" in opened.text("#detail") and not opened.all("#step")
    opened.state("task=mr&encoder=minilm&status=skipped")
    assert "No steps" not in opened.text("#detail")


def test_replayed_in_the_browser_the_last_step_is_the_final_text(opened: Opened) -> None:
    found = opened.go().page.evaluate(
        "report.examples.filter(one => one.steps).map(one => [report.stepTexts(one, one.steps.length - 1), "
        "report.texts(one, true), report.stepTexts(one, 0), report.texts(one, false)])"
    )
    assert len(found) == sum(letter != "w" for letters in LETTERS.values() for letter in letters[7:]) * 2
    assert all(last == after and first == before for last, after, first, before in found)


def test_several_words_of_a_step_are_replaced_each_at_its_place(opened: Opened) -> None:
    opened.go("#task=mr&encoder=minilm&q=film+11")
    opened.page.locator(".bars .step").nth(1).click()
    assert opened.text("#step-text p") == "😀 a great movie 11"
    assert opened.all("#step-text ins.now") == ["great", "movie"] and opened.all("#step-said del") == ["good", "film"]
    told = json.loads(opened.page.evaluate("report.asJson(report.filtered()[0])"))["steps"]
    assert told == json.loads(json.dumps([one.model_dump(mode="json") for one in steps("f", wide=True)]))


def test_bars_of_scores_are_parts_of_the_largest(opened: Opened) -> None:
    opened.go().page.evaluate("report.examples.forEach((one) => { one.label = 0; })")
    opened.state("task=mr&encoder=minilm&q=film+8")
    assert opened.all(".bars i", "one => one.style.height") == ["91%", "75%", "40%"], "probabilities are parts of 1"
    opened.go().page.evaluate("report.data.names.labels.mr = []")
    opened.page.evaluate("report.examples.forEach((one) => { one.label = 3.64; })")
    opened.state("task=mr&encoder=minilm&q=film+8")
    assert opened.all(".bars i", "one => one.style.height") == ["25%", "21%", "11%"]
    assert "score 0.40" in opened.text("#step-said") and "probability" not in opened.text("#step-said")
    opened.go()


@pytest.mark.parametrize(
    ("trainings", "fell"), [(((0, 1), (5, 6)), ["a0", "a1", "b1"]), (((0,), (5, 6)), ["a0", "a0", "b0"])]
)
def test_texts_that_fell_alone_pair_trainings_as_the_comparison_does(
    opened: Opened, trainings: tuple[tuple[int, ...], ...], fell: list[str]
) -> None:
    """The first encoder falls on both texts, the second on text `b` with training 5 alone."""
    rows = [
        {**dict.fromkeys(("task", "finetune", "attack"), "x"), "seed": 0, "encoder": name, "training": training}
        | {"example": text, "status": "succeeded" if name == "one" or (text, training) == ("b", 5) else "failed"}
        for name, own in zip(("one", "other"), trainings, strict=True)
        for training in own
        for text in ("a", "b")
    ]
    opened.go().page.evaluate("(rows) => { report.examples = rows; }", rows)
    pair, cell = {"one": "one", "other": "other"}, dict.fromkeys(("task", "finetune", "attack"), "x")
    mine, theirs = opened.page.evaluate("([pair, cell]) => report.fellAlone(pair, cell)", [pair, cell])
    assert sorted(f"{one['example']}{one['training']}" for one in mine) == fell and theirs == []
    opened.go()


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_is_never_wider_than_the_screen(opened: Opened, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 800})
    assert opened.go().page.evaluate("document.documentElement.scrollWidth") <= width
    opened.page.set_viewport_size({"width": 1200, "height": 900})


def test_claims_say_their_numbers(opened: Opened) -> None:
    verdicts = {one.claim.id: one.verdict for one in api.claims(opened.file.parent)}
    shown = opened.all(".chip summary", "one => one.innerText.trim()")
    assert [text.partition(":")[0].lower() for text in shown] == [*verdicts.values()]
    assert all(" of " in text for text in shown), "chips say what is claimed"
    assert opened.all(".chip .card code:first-child") == [*verdicts]
    opened.page.locator(".chip summary").first.press("Enter")
    assert opened.page.locator(".chip .card").first.is_visible()
    assert "95% interval" in opened.text(".chip .card")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding(opened: Opened, axe: Axe, scheme: str) -> None:
    opened.page.emulate_media(color_scheme=scheme)
    opened.go("#task=mr&encoder=minilm&q=film+8")
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    found = axe(opened.page)
    opened.page.emulate_media(color_scheme="light")
    assert found == {}


def test_the_page_of_the_quickstart_fits_a_phone_with_everything_open(browser: Any, tmp_path: Path) -> None:
    (file,) = api.report(Path(__file__).parents[2] / "results/quickstart.zip", tmp_path / "quickstart.html")
    page = browser.new_page(offline=True, viewport={"width": 360, "height": 800})
    Opened(page, file).go()
    for chip in page.locator("details").all():  # of chips, one is open at a time
        chip.evaluate("one => { one.open = true; }")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, chip.inner_text()[:200]
    page.close()


def test_the_page_of_the_quickstart_names_options_and_compares_its_strategies(browser: Any, tmp_path: Path) -> None:
    (file,) = api.report(Path(__file__).parents[2] / "results/quickstart.zip", tmp_path / "quickstart.html")
    page = browser.new_page(offline=True)
    opened = Opened(page, file).go()
    rows = opened.all("#heat tbody th", "one => one.textContent")
    assert rows == ["mini-bert (packaged), Clean", "mini-bert (packaged), Adversarial"]
    options = "clean_epochs=2, max_words=4, order=once, source=neighbours"
    assert page.inner_text("#metric-said").endswith(f"to sort. Clean: epochs=4. Adversarial: {options}.")
    assert page.inner_text("#h-compare") == "Compare two strategies"
    found = api.compare(Path(__file__).parents[2] / "results/quickstart.zip").cells[0]
    d, both = found.difference, found.both
    assert opened.all("#compare select option:checked") == ["Clean", "Adversarial"]
    table = [int(text) for text in opened.all(".fourfold tbody td")]
    assert (sum(table), table[:3]) == (d.n, [both, d.only_one, d.only_other])
    assert opened.all("#paired .fell", "one => one.children.length") == [d.only_one, d.only_other], (
        "all are in the page"
    )
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_a_page_of_runs_with_labels_fits_and_axe_has_no_serious_finding(
    browser: Any, axe: Axe, run: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    copy = write_run(tmp_path / "run")
    (file,) = api.report([f"a-rather-long-label-of-a-RUN={run}", f"after={copy}"], tmp_path / "both.html")
    page = browser.new_page(offline=True, color_scheme=scheme, viewport={"width": width, "height": 800})
    opened = Opened(page, file).go()
    chosen = opened.all("#compare select", "one => one.value")
    assert chosen == ["minilm (a-rather-long-label-of-a-RUN)", "minilm (after)"]
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = "one => one.scrollWidth > one.clientWidth"
    assert width < 1000 or not any(opened.all("#compare .scroll", cut)), "all columns can be seen"
    assert axe(page) == {} and opened.said == []
    page.close()
