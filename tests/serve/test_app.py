"""What the server answers, held to what the library says; and what it refuses, route by route."""

import contextlib
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import fans
from fans.serve import InMemory, serve
from fans.serve.app import application
from tests.report.made import explanation, graph_of, table
from tests.serve import subjects

pytest.importorskip("fastapi", reason="needs the explorer's server: pip install 'fans[serve]'")
from starlette.testclient import TestClient

HOST = "http://127.0.0.1:8765"
EVERYWHERE, SECRET = "0.0.0.0", "a secret of ours"  # noqa: S104
JSON = {"content-type": "application/json"}


def client_of(source, **settings):
    app, explorer = application(source, **settings)
    return TestClient(app, base_url=HOST), explorer


@pytest.fixture(scope="module")
def subject():
    return subjects.table()


@pytest.fixture(scope="module")
def client(subject):
    explainer, explanation, _ = subject
    with_client, explorer = client_of(InMemory(explanation, explainer))
    yield with_client
    explorer.close()


def test_a_view_tells_what_the_explanation_tells(client, subject):
    _, e, _ = subject
    told = client.get("/api/view?i=2").json()
    assert told["subset"] == np.flatnonzero(e.subset[2]).tolist()
    assert "".join(part["text"] for part in told["finding"]) in e.sentences[2].replace("*", "")
    assert told["figures"]["both"] == [e.pns[2], *e.interval[2, 0]]
    assert told["figures"]["change"] == [e.changes[2], *e.share_interval[2, 0]]
    assert told["figures"]["keep"] == [e.holds[2], *e.share_interval[2, 1]]
    assert [each["f"] for each in told["features"]] == e.ranked(2).tolist()
    assert [each["name"] for each in told["features"]] == [e.name(2, f) for f in e.ranked(2)]
    assert told["model"] == {"available": True, "why": ""}


def test_a_clicked_subset_has_the_figures_of_score(client, subject):
    explainer, e, _ = subject
    subset = [0, 4]
    found = client.post("/api/score", json={"i": 1, "subset": subset, "channel": "a"}).json()
    x = explainer.inputs_of(e[1])
    known = explainer.score(x, np.isin(np.arange(5), subset), target=e.target[1:2], ids=e.ids[1:2])
    assert found["figures"]["both"] == [known.pns[0], *known.interval[0, 0]]
    assert found["figures"]["change"] == [known.changes[0], *known.share_interval[0, 0]]
    assert found["figures"]["keep"] == [known.holds[0], *known.share_interval[0, 1]]
    said = "".join(part["text"] for part in found["said"])
    assert said.startswith("Keep ")
    assert {part["text"] for part in found["said"] if part.get("em")} == {"alpha", "epsilon"}


def test_the_own_subset_has_the_own_figures_and_asks_nobody(client, subject):
    _, e, _ = subject
    own = np.flatnonzero(e.subset[1]).tolist()
    found = client.post("/api/score", json={"i": 1, "subset": own[::-1]}).json()
    assert found["own"]
    assert found["figures"]["both"][0] == e.pns[1]


def test_another_tolerance_is_that_of_an_explainer_with_it(client, subject):
    _, e, _ = subject
    found = client.post("/api/score", json={"i": 0, "subset": [1, 2], "tolerance": 0.4}).json()
    rows = np.random.default_rng(0).normal(0, 1.5, (120, 5))
    other = fans.Explainer(subjects.model_of_table, rows, target_names=["no", "yes"], effort="low", tolerance=0.4)
    known = other.score(rows[:1], np.isin(np.arange(5), [1, 2]), target=e.target[:1], ids=[0])
    assert found["figures"]["both"][0] == known.pns[0]
    assert "0.4" in "".join(part["text"] for part in found["said"])


def test_the_curve_is_the_explainers(client, subject):
    explainer, e, _ = subject
    found = client.post("/api/curve", json={"i": 3}).json()["curve"]
    assert found == explainer.curve(e[3]).to_json(0)


def test_trials_are_the_explainers_and_those_alike_are_counted(client, subject):
    explainer, e, _ = subject
    subset = np.flatnonzero(e.subset[0]).tolist()
    found = client.post("/api/trials", json={"i": 0, "subset": subset}).json()
    known = explainer.trials(explainer.inputs_of(e[0]), e.subset[0], target=e.target[:1], ids=e.ids[:1])
    for side in ("changed", "kept"):
        assert sum(each["n"] for each in found[side]) == known.moved[side].shape[1]
        assert sum(each["n"] for each in found[side] if each["moved"]) == known.moved[side].sum()
    moved = {each["name"] for trial in found["changed"] for each in trial["shown"]["moves"]}
    assert moved <= {e.name(0, f) for f in subset}


def test_other_methods_are_explainers_with_them(client):
    names = [each["name"] for each in client.get("/api/view?i=0").json()["rivals"]]
    assert "kernel_shap" in names
    assert "saliency" not in names  # the model is no torch module
    found = client.post("/api/method", json={"i": 0, "method": "kernel_shap"}).json()
    rows = np.random.default_rng(0).normal(0, 1.5, (120, 5))
    other = fans.Explainer(subjects.model_of_table, rows, method="kernel_shap", effort="low")(rows[:1])
    assert found["subset"] == np.flatnonzero(other.subset[0]).tolist()
    assert found["figures"]["both"][0] == other.pns[0]


def test_without_a_model_it_says_so_and_why(subject):
    _, e, _ = subject
    alone, explorer = client_of(InMemory(e))
    told = alone.get("/api/view?i=0").json()["model"]
    assert not told["available"]
    assert "no model to ask" in told["why"]
    answer = alone.post("/api/score", json={"i": 0, "subset": [0]})
    assert (answer.status_code, "no model" in answer.json()["error"]) == (400, True)
    assert alone.post("/api/curve", json={"i": 0}).json()["curve"] is None
    assert alone.get("/api/export?i=0").status_code == 200
    explorer.close()


def test_kept_curves_are_shown_without_a_model(subject):
    explainer, e, _ = subject
    curves = explainer.curve(e)
    alone, explorer = client_of(InMemory(e, curves=curves))
    assert alone.post("/api/curve", json={"i": 4}).json()["curve"] == curves.to_json(4)
    explorer.close()
    with pytest.raises(fans.InputError, match="Expected `curves` of the explained inputs, got 1 of others"):
        InMemory(e, curves=curves[2])


def test_inputs_that_an_explanation_does_not_tell_are_given_along():
    from scipy import sparse

    rows = sparse.csr_matrix(np.eye(6)[:, :5])
    explainer = fans.Explainer(lambda x: np.asarray(x.sum(1)).ravel(), rows, effort="low")
    e = explainer(rows[:2])
    without, explorer = client_of(InMemory(e, explainer))
    told = without.get("/api/view?i=0").json()["model"]
    assert not told["available"]
    assert "does not tell" in told["why"]
    explorer.close()
    given, explorer = client_of(InMemory(e, explainer, x=rows[:2]))
    assert given.get("/api/view?i=0").json()["model"]["available"]
    found = given.post("/api/score", json={"i": 0, "subset": []}).json()
    assert found["figures"]["change"][0] == explainer.score(rows[:1], [False], target=e.target[:1], ids=[0]).changes[0]
    e = explainer(rows[2:4] + rows[:2])  # two columns each
    explorer.close()
    given, explorer = client_of(InMemory(e, explainer, x=rows[2:4] + rows[:2]))
    first = int(np.flatnonzero(e.present[1])[0])
    found = given.post("/api/score", json={"i": 1, "subset": [first]}).json()
    known = explainer.score(rows[3:4] + rows[1:2], [e.feature_names[first]], target=e.target[1:], ids=[1])
    assert found["figures"]["both"][0] == known.pns[0]
    explorer.close()
    with pytest.raises(fans.InputError, match="Expected `x` as the 2 explained inputs, got 6"):
        InMemory(e, explainer, x=rows)


def test_nothing_in_particular_is_said_where_nothing_matters():
    nothing = explanation([[0.1, 0.2]], [[False, False]], holds=np.array([0.97]))
    some, explorer = client_of(InMemory(nothing))
    assert some.get("/api/view?i=0").json()["nothing"].startswith("This class is what the model says of nothing in")
    explorer.close()
    some, explorer = client_of(InMemory(table(1)))
    assert some.get("/api/view?i=0").json()["nothing"] == ""
    explorer.close()


# --- The gallery ------------------------------------------------------------------------------------------------------


def many(n=1000):
    draws = np.random.default_rng(3)
    subset = draws.random((n, 11)) < 0.3
    return explanation(
        draws.random((n, 11)),
        subset,
        scores_se=None,
        direction=np.full((n, 11), np.nan),
        stability=subset.astype(float),
        inputs=draws.random((n, 11)),
        pns=np.where(np.arange(n) % 10, draws.random(n), np.nan),
    )


@pytest.fixture(scope="module")
def gallery():
    e = many()
    with_client, explorer = client_of(InMemory(e))
    yield with_client, e
    explorer.close()


def records(client, **query):
    return client.get("/api/records", params=query).json()


def test_pages_have_every_record_once(gallery):
    client, e = gallery
    seen = [r["i"] for page in range(42) for r in records(client, page=page)["records"]]
    assert seen == list(range(len(e)))
    assert records(client, page=42)["records"] == []


def test_records_are_sorted_and_what_is_undefined_comes_last(gallery):
    client, e = gallery
    order = np.argsort(np.nan_to_num(-e.pns, nan=np.inf), kind="stable")
    assert [r["i"] for r in records(client, sort="pns", down=1, size=96)["records"]] == order[:96].tolist()
    order = np.argsort(e.subset.sum(1), kind="stable")
    assert [r["i"] for r in records(client, sort="size")["records"]] == order[:24].tolist()


def test_records_are_filtered_by_class_feature_pns_size_and_name(gallery):
    client, e = gallery
    sizes = e.subset.sum(1)
    cases = {
        (("target", "P(malignant)"),): e.target == 1,
        (("feature", 9),): e.subset[:, 9],
        (("low", 0.25), ("high", 0.5)): (e.pns >= 0.25) & (e.pns <= 0.5),
        (("least", 2), ("most", 3)): (sizes >= 2) & (sizes <= 3),
        (("words", "ROW 99"),): np.array(["row 99" in f"row {i}" for i in range(len(e))]),
        (("feature", 0), ("target", "P(benign)"), ("least", 5)): e.subset[:, 0] & (e.target == 0) & (sizes >= 5),
        (("target", "nobody"),): np.zeros(len(e), bool),
        (("feature", 400),): np.zeros(len(e), bool),
    }
    for query, expected in cases.items():
        found = records(client, size=96, **dict(query))
        assert found["found"] == expected.sum()
        assert [r["i"] for r in found["records"]] == np.flatnonzero(expected)[:96].tolist()


def test_the_global_view_counts_every_subset(gallery):
    client, e = gallery
    for target, rows in (("", slice(None)), ("P(malignant)", e.target == 1)):
        told = client.get("/api/global", params={"target": target}).json()
        counts = {each["f"]: each["n"] for each in told["features"]}
        assert counts == dict(enumerate(e.subset[rows].sum(0).tolist()))
        assert sum(each["n"] for each in told["sizes"]) == told["n"] == len(e.subset[rows])
        assert sum(each["n"] for each in told["pns"]) + told["undefined"] == told["n"]
    assert [each["n"] for each in told["classes"]] == [500, 500]


def test_shares_have_wilsons_interval(gallery):
    from scipy.stats import binomtest

    client, _ = gallery
    for each in client.get("/api/global").json()["features"]:
        low, high = binomtest(each["n"], 1000).proportion_ci(0.95, "wilson")
        assert [each["low"], each["high"]] == pytest.approx([low, high], abs=2e-6)


def test_features_that_differ_are_not_counted_over_inputs():
    edges = [(0, 1), (1, 2), (2, 0)]
    some, explorer = client_of(InMemory(graph_of(edges, [0.5, 0.2, 0.1], [True, False, False])))
    assert some.get("/api/global").json()["features"] is None
    assert some.get("/api/records").json()["look"] == "none"
    explorer.close()


# --- Safety -----------------------------------------------------------------------------------------------------------

GETS = ("/", "/static/main.js", "/api/run", "/api/records", "/api/global", "/api/previews?of=0", "/api/view?i=0")
POSTS = ("/api/score", "/api/curve", "/api/trials", "/api/method")


def sentence_of(answer):
    told = answer.json()
    assert set(told) == {"error"}
    assert told["error"][0].isupper()
    assert "Traceback" not in told["error"]
    return told["error"]


@pytest.mark.parametrize("path", [*GETS, "/api/export?i=0"])
def test_every_answer_keeps_the_page_to_itself(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        *("/api/view", "/api/view?i=", "/api/view?i=-1", "/api/view?i=6", "/api/view?i=1e3", "/api/view?i=" + "9" * 99),
        *("/api/view?i=../../etc/passwd", "/api/view?i=<script>", "/api/records?sort=rm", "/api/records?page=x"),
        *("/api/records?size=100000", "/api/records?low=nan", "/api/records?high=inf", "/api/records?feature=-7"),
        *("/api/records?evil=1", "/api/global?target=nobody", "/api/previews", "/api/previews?of=1,,2"),
        *("/api/previews?of=" + ",".join("0" * 101), "/api/export?i=99", "/api/export?i=0&subset=1.x"),
        *("/api/export?i=0&subset=77", "/api/export?i=0&k=-1"),
    ],
)
def test_hostile_queries_get_a_sentence(client, path):
    answer = client.get(path)
    assert answer.status_code == 400
    assert sentence_of(answer).startswith("Expected ")


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "body",
    [
        *("", "no json", "[]", "null", "3", '"text"', '{"i": 0', "{}", '{"i": "0"}', '{"i": true}', '{"i": 1e400}'),
        *('{"i": -1, "subset": [], "method": "lime"}', '{"i": 6, "subset": [], "method": "lime"}', "[" * 100_000),
        '{"i": 0, "subset": [0], "method": "fans", "channel": ' + json.dumps("x" * 81) + "}",
        '{"i": ' + "9" * 5000 + "}",
        "\xff\xfe",
    ],
)
def test_hostile_bodies_get_a_sentence(client, path, body):
    headers = {"content-type": "application/json"}
    answer = client.post(path, content=body.encode("latin-1"), headers=headers)
    assert answer.status_code == 400
    assert sentence_of(answer).startswith("Expected ")


@pytest.mark.parametrize("subset", [None, "all", {"0": 1}, [0.5], ["0"], [True], [-1], [5], [2**40], [[0]], 3])
def test_hostile_subsets_get_a_sentence(client, subset):
    for path in ("/api/score", "/api/trials"):
        answer = client.post(path, json={"i": 0, "subset": subset})
        assert answer.status_code == 400
        assert sentence_of(answer).startswith("Expected ")


@pytest.mark.parametrize("tolerance", ["0.1", -0.1, True, [0.1], float("1e999"), "nan"])
def test_hostile_tolerances_get_a_sentence(client, tolerance):
    body = json.dumps({"i": 0, "subset": [0], "tolerance": tolerance})
    answer = client.post("/api/score", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "`tolerance`" in sentence_of(answer)


@pytest.mark.parametrize("method", ["", "fans", "rm -rf", "__class__", "pg_explainer"])
def test_only_fitting_methods_are_asked(client, method):
    answer = client.post("/api/method", json={"i": 0, "method": method})
    assert answer.status_code == 400
    assert "Expected `method`" in sentence_of(answer)


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/%2e%2e/errors.py", "/static//etc/passwd"),
        *("/static/app.py", "/static/main.js%00", "/etc/passwd", "/docs", "/openapi.json", "/static/", "/api"),
    ],
)
def test_nothing_but_the_pages_own_files_is_read(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert sentence_of(answer) == "There is nothing at this address."


def test_other_methods_and_kinds_are_refused(client):
    assert client.put("/api/view", json={}).status_code == 405
    assert client.request("TRACE", "/").status_code == 405
    assert client.post("/api/view", json={}).status_code == 405
    assert client.post("/api/score", content="{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/api/score", data={"i": "0"}).status_code == 415
    assert client.post("/api/score", content=b"{}" + b" " * 2**20, headers=JSON).status_code == 413
    assert client.get("/?" + "x" * 9000).status_code == 414
    assert client.get("/" + "x" * 300).status_code == 414


def test_a_body_that_does_not_tell_its_length_is_counted(client):
    def endless():
        for _ in range(40):
            yield b" " * 2**16

    answer = client.post("/api/score", content=endless(), headers=JSON)
    assert answer.status_code == 413
    assert "1,048,576 bytes" in sentence_of(answer)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "", "10.0.0.1", "[::"]
)
def test_no_other_name_leads_here(client, host):
    answer = client.get("/api/view?i=0", headers={"host": host})
    assert answer.status_code == 421
    assert "this server's own name" in sentence_of(answer)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST", "[::1]:8765"])
def test_own_names_do(client, host):
    assert client.get("/api/run", headers={"host": host}).status_code == 200


def test_other_sites_pages_cannot_ask(client):
    body = {"i": 0, "subset": [0]}
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
    ):
        answer = client.post("/api/score", json=body, headers=headers)
        assert answer.status_code == 403
        assert "own page" in sentence_of(answer)
    assert client.post("/api/score", json=body, headers={"origin": HOST}).status_code == 200


def test_beyond_this_machine_a_token_is_needed(subject):
    _, e, _ = subject
    away, explorer = client_of(InMemory(e), host=EVERYWHERE, token=SECRET)
    own = {"host": "192.168.1.7:8765"}
    for wrong in ({}, {"x-fans-token": "another"}, {"cookie": "fans_token=another"}, {"cookie": "é"}):
        for path in (*GETS, *POSTS):
            answer = away.get(path, headers={k: v.encode() for k, v in (own | wrong).items()})
            assert answer.status_code == 401
            assert "token" in sentence_of(answer)
    assert away.get("/api/run", headers=own | {"x-fans-token": "a secret of ours"}).status_code == 200
    assert away.get("/api/run", headers=own | {"authorization": "Bearer a secret of ours"}).status_code == 200
    assert away.get("/api/run?token=wrong", headers=own).status_code == 401
    assert away.get("/api/run", headers={"host": "evil.example", "x-fans-token": "a secret of ours"}).status_code == 421
    first = away.get("/?token=a%20secret%20of%20ours&a=1", headers=own, follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/?a=1")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    kept = cookie.partition(";")[0]
    away.cookies.clear()
    assert away.get("/api/run", headers=own | {"cookie": kept}).status_code == 200
    first = away.get("//evil.example/?token=a%20secret%20of%20ours", headers=own, follow_redirects=False)
    assert not first.headers.get("location", "/").startswith("//")
    explorer.close()


def test_a_model_that_fails_is_told_and_the_server_stays():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    broken = threading.Event()

    def model(x):
        if broken.is_set():
            raise ValueError("the weights are <gone>")
        return x[:, 0]

    explainer = fans.Explainer(model, rows, effort="low")
    some, explorer = client_of(InMemory(explainer(rows[:2]), explainer))
    broken.set()
    answer = some.post("/api/score", json={"i": 0, "subset": [0, 1]})
    assert answer.status_code >= 400
    assert "the weights are <gone>" in sentence_of(answer)
    broken.clear()
    assert some.post("/api/score", json={"i": 0, "subset": [0, 1]}).status_code == 200
    explorer.close()


def test_hostile_names_stay_data_in_the_saved_page():
    evil = "</script><script>alert(1)</script>"
    e = table(1, feature_names=(evil, '"><img src=x onerror=alert(1)>', "x3"), ids=(evil,), target_names=(evil, "b"))
    some, explorer = client_of(InMemory(e, title=evil))
    text = some.get("/api/export?i=0").text
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "<img" not in text
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert data["run"] == evil
    explorer.close()


# --- Many at once -----------------------------------------------------------------------------------------------------


class Slow:
    """A model of which one may say when it answers."""

    def __init__(self):
        self.go, self.n = threading.Event(), 0
        self.go.set()

    def __call__(self, x):
        self.go.wait(10)
        self.n += 1
        return x[:, 0]


def test_a_newer_click_takes_the_place_of_older_ones():
    rows, model = np.random.default_rng(0).normal(size=(60, 6)), Slow()
    explainer = fans.Explainer(model, rows, effort="low", max_batch=8)
    source = InMemory(explainer(rows[:1]), explainer)
    with serve(source, port=0, wait=False) as served, httpx.Client(base_url=served.url, timeout=30) as client:
        client.post("/api/score", json={"i": 0, "subset": [5], "channel": "warm"})
        model.go.clear()
        answers: dict[int, Any] = {}

        def click(k):
            body = {"i": 0, "subset": list(range(1, k + 2)), "channel": "page"}
            answers[k] = httpx.post(f"{served.url}api/score", json=body, timeout=30).json()

        clicks = [threading.Thread(target=click, args=(k,)) for k in range(4)]
        for each in clicks:
            each.start()
            time.sleep(0.15)
        before = model.n
        model.go.set()
        for each in clicks:
            each.join()
        assert [("superseded" in answers[k]) for k in range(4)] == [True, True, True, False]
        whole = answers[3]["figures"]["rows"]
        assert model.n - before <= 2 + whole / 8 + 8  # one batch of the first click, nothing of the others


def test_clicks_go_before_what_takes_long():
    rows, model = np.random.default_rng(0).normal(size=(60, 6)), Slow()
    explainer = fans.Explainer(model, rows, effort="low", max_batch=2)
    asked: list[str] = []
    source = InMemory(explainer(rows[:1]), explainer)
    _, explorer = application(source)
    explorer.asker.ask("live", "warm", lambda: None).result(10)
    model.go.clear()
    x = explainer.inputs_of(source.explanation(0))

    def work(name, subset):
        explainer.score(x, subset)
        asked.append(name)

    slow = explorer.asker.ask("slow", "a", lambda: work("slow", [True] * 6))
    time.sleep(0.1)
    live = explorer.asker.ask("live", "b", lambda: work("live", [True, *[False] * 5]))
    model.go.set()
    live.result(20)
    slow.result(20)
    assert asked == ["live", "slow"]
    explorer.close()


@pytest.mark.long(reason="ten thousand requests")
def test_ten_thousand_requests_at_once_leave_the_server_up(subject):
    import asyncio

    explainer, e, _ = subject
    with serve(InMemory(e, explainer), port=0, wait=False) as served:

        async def one(path):
            body = b'{"i": 0, "subset": [1], "channel": "x"}'
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
                line = await asyncio.wait_for(reader.readline(), 60)
                writer.close()
            except OSError:
                return "refused"
            return line.decode().partition(" ")[2].partition(" ")[0]

        async def all_of_them():
            gate = asyncio.Semaphore(900)  # this process may open no more at a time

            async def gated():
                async with gate:
                    return await one("/api/score")

            return await asyncio.gather(*(gated() for _ in range(10_000)))

        found = asyncio.run(all_of_them())
        assert set(found) <= {"200", "503", "refused", ""}
        assert found.count("200") > 0
        answer = httpx.post(f"{served.url}api/score", json={"i": 0, "subset": [1]}, timeout=30)
        assert answer.status_code == 200


def test_huge_headers_and_half_requests_do_no_harm(subject):
    import socket

    _, e, _ = subject
    with serve(InMemory(e), port=0, wait=False) as served:
        for sent in (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
            b"\x00\xff" * 1000,
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /api/curve HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/json\r\nContent-Length: 9\r\n\r\n",
            b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        ):
            # The server may have closed it by then.
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", served.port), timeout=5) as raw:
                raw.sendall(sent)
                raw.shutdown(socket.SHUT_WR)
                raw.recv(1000)
        assert httpx.get(f"{served.url}api/run").json()["n"] == len(e)


# --- Starting ---------------------------------------------------------------------------------------------------------


def test_it_listens_at_this_machine_alone_unless_told(subject):
    _, e, _ = subject
    with e.serve(port=0, wait=False) as served:
        assert served.url == f"http://localhost:{served.port}/"
        assert served.url in served._repr_html_()
        assert httpx.get(served.url).status_code == 200
        with pytest.raises(fans.InputError, match=r"Expected a free port at 127\.0\.0\.1"):
            e.serve(port=served.port, wait=False)
    with e.serve(host=EVERYWHERE, port=0, wait=False) as served:
        assert re.search(r"\?token=[\w-]{32}$", served.url)
        assert httpx.get(f"http://127.0.0.1:{served.port}/").status_code == 401


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"port": -1}, "`port`"),
        ({"port": 70000}, "up to 65535"),
        ({"token": "short"}, "8 to 200"),
        ({"token": "a\nb" * 5}, "8 to 200"),
        ({"host": "no.such.host.invalid", "port": 0}, "Expected a free port"),
    ],
)
def test_settings_that_make_no_sense_are_refused(subject, settings, sentence):
    _, e, _ = subject
    with pytest.raises(fans.InputError, match=sentence):
        e.serve(wait=False, **settings)


def test_saved_explanations_are_served_from_the_command_line(subject, tmp_path, monkeypatch, capsys):
    from fans import cli
    from fans.serve import running

    _, e, _ = subject
    path = e.save(tmp_path / "found.safetensors")
    seen = {}

    def wait(self):
        seen["run"] = httpx.get(f"{self.url}api/run").json()
        self.close()

    monkeypatch.setattr(running.Served, "wait", wait)
    assert cli.main(["serve", str(path), "--port", "0"]) == 0
    assert seen["run"]["n"] == len(e)
    assert "The explorer is at http://localhost:" in capsys.readouterr().err
    assert cli.main(["serve", str(path), "--model", "os:system"]) == 1
    assert "explanation.serve(explainer)" in capsys.readouterr().err
    (tmp_path / "none.txt").write_text("nothing")
    assert cli.main(["serve", str(tmp_path / "none.txt")]) == 1
    assert cli.main(["serve", str(tmp_path / "absent")]) == 1


def test_ctrl_c_ends_it(subject, tmp_path):
    import signal
    import subprocess
    import sys

    _, e, _ = subject
    path = e.save(tmp_path / "found.safetensors")
    command = [sys.executable, "-m", "fans.cli", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1]
        assert httpx.get(f"{address}api/run").json()["n"] == len(e)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_run_of_ones_own_is_served_with_its_model(tmp_path):
    own = pytest.importorskip("fans.own")
    sklearn = pytest.importorskip("sklearn.linear_model")
    skops = pytest.importorskip("skops.io")
    import pandas as pd

    from fans import cli
    from fans.serve.source import opened

    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=["a", "b", "c", "<d>"])
    model = sklearn.LogisticRegression().fit(rows, rows["a"] + rows["b"] > 0)
    skops.dump(model, tmp_path / "model.skops")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    run = tmp_path / "run"
    given = [str(tmp_path / "model.skops"), str(tmp_path / "rows.csv"), "--out", str(run), "--effort", "low"]
    assert cli.main(["explain", *given]) == 0
    source = opened(run)
    assert isinstance(source, own.Results)
    some, explorer = client_of(source)
    told = some.get("/api/view?i=7").json()
    assert told["model"]["available"], told["model"]["why"]
    e = source.explanation(7)
    assert told["figures"]["both"][0] == e.pns[0]
    assert {each["name"] for each in told["features"]} == set(rows.columns)
    found = some.post("/api/score", json={"i": 7, "subset": [3]}).json()
    maker = source.explainer()
    assert maker is not None
    known = maker.score(rows.iloc[7:8], [False, False, False, True], target=e.target, ids=e.ids)
    assert found["figures"]["keep"][0] == known.holds[0]
    counts = {each["name"]: each["n"] for each in some.get("/api/global").json()["features"]}
    subsets = np.stack([source.explanation(i).subset[0] for i in range(60)])
    assert counts == dict(zip(rows.columns, subsets.sum(0).tolist(), strict=True))
    explorer.close()


def test_the_guides_lines_run_as_printed(capsys):
    page = (Path(__file__).parents[2] / "docs" / "explorer.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code, {})  # noqa: S102
    assert capsys.readouterr().out.startswith("http://localhost:")


def test_readers_who_wait_for_a_file_are_not_told_of_and_more_files_are_asked_for():
    import resource

    from fans.serve import running

    told: list[str] = []

    class Loop:
        def default_exception_handler(self, context):
            told.append(context["message"])

    loop: Any = Loop()
    running._told(loop, {"message": "socket.accept() out of system resource", "exception": OSError(24, "files")})
    running._told(loop, {"message": "a task failed", "exception": ValueError("x")})
    assert told == ["a task failed"]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    running.more_files(before[0])
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
